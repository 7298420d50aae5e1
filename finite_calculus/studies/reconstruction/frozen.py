"""The effective matrix of one query reused for others: what that omits, token by token (eq:tokenerror)."""

from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.effective import EffectiveWeights, anchor_bound, anchor_residual
from finite_calculus.studies.reconstruction.heads import Budget, Head
from finite_calculus.studies.reconstruction.rows import Frozen


@dataclass(frozen=True, eq=False)
class FrozenHead:
    """Prefix readouts of every continuation, those with the first one's matrix, and these corrected.

    `budget` is what rounding may put between `corrected` and `output`, `bound` what eq:bound allows at the
    continuation where the frozen readout errs most.
    """

    output: Float[Tensor, "rows width"]
    frozen: Float[Tensor, "rows width"]
    corrected: Float[Tensor, "rows width"]
    budget: Float[Tensor, "rows width"]
    bound: float | None

    @property
    def errors(self) -> Float[Tensor, " rows"]:
        """‖e‖ of every continuation."""
        return torch.linalg.vector_norm(self.output - self.frozen, dim=-1)

    @property
    def worst_pair(self) -> tuple[float, float]:
        """The largest ‖e‖ as it was measured, and its bound with the rounding of the measurement."""
        worst = int(self.errors.argmax())
        rounding = float(torch.linalg.vector_norm(self.budget[worst]))
        return float(self.errors[worst]), (self.bound or 0.0) + rounding


def freeze_anchor(head: Head, gauge: str) -> FrozenHead:
    """Every continuation of a head with the matrix of the first."""
    frozen, corrected = [], []
    anchor: EffectiveWeights | None = None
    portions = list(head.prefix_weights(gauge))
    for _, weights in portions:
        anchor = _single(weights, 0) if anchor is None else anchor
        shared = _spread(anchor, weights)
        readout = replace(weights, matrix=shared.matrix).output
        frozen.append(readout)
        corrected.append(readout + anchor_residual(weights, shared).sum(-2))
    still = FrozenHead(
        head.prefix.output,
        torch.cat(frozen),
        torch.cat(corrected),
        Budget(head).corrected(gauge),
        None,
    )
    worst = int(still.errors.argmax())
    rows, weights = next((r, w) for r, w in portions if r.start <= worst < r.stop)
    own = _single(weights, worst - rows.start)
    assert anchor is not None  # there is at least one portion
    return replace(still, bound=float(anchor_bound(own, anchor)))


def frozen_row(context: int, layer: int, head: int | None, gauge: str, still: FrozenHead) -> Frozen:
    """The figures of one head, or of the combined write, over all continuations but the anchor."""
    others = still.output[1:]
    return Frozen(
        context,
        layer,
        head,
        gauge,
        size=_root(torch.linalg.vector_norm(others, dim=-1)),
        change=_root(torch.linalg.vector_norm(others - still.output[0], dim=-1)),
        frozen=_root(still.errors[1:]),
        corrected=float((still.corrected - still.output).abs().max()),
        corrected_bound=float(still.budget.max()),
        worst=float(still.errors.max()),
        worst_bound=still.bound,
    )


def _root(norms: Tensor) -> float:
    return float(norms.square().mean().sqrt())


def _single(weights: EffectiveWeights, row: int) -> EffectiveWeights:
    """The weights of one continuation of a portion."""
    return EffectiveWeights(**{name: tensor[row] for name, tensor in vars(weights).items()})


def _spread(anchor: EffectiveWeights, weights: EffectiveWeights) -> EffectiveWeights:
    """The anchor once for every continuation of a portion, on the portion's own features and values."""
    rows = weights.query_input.shape[0]
    return replace(
        weights,
        query_input=anchor.query_input.expand(rows, -1),
        coefficients=anchor.coefficients.expand(rows, -1),
        matrix=anchor.matrix.expand(rows, -1, -1),
    )
