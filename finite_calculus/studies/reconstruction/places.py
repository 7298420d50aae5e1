"""Every comparison of a head at all continuations, and of the write that the heads make together."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models import LayerCapture, LocalError, local_error
from finite_calculus.studies.reconstruction.heads import UNIT, Budget, Head
from finite_calculus.studies.reconstruction.native import Continuation


@dataclass(frozen=True, eq=False)
class Compared:
    """Something computed in two ways at every continuation, (rows, width), and what may lie between them.

    `moved` is what a rounding of the inputs does to the second.
    """

    one: Float[Tensor, "rows width"]
    other: Float[Tensor, "rows width"]
    bound: Float[Tensor, "rows width"]
    moved: Float[Tensor, "rows width"] | None = None

    @property
    def apart(self) -> Tensor:
        """The absolute difference."""
        return (self.one - self.other).abs()

    @property
    def mse(self) -> float:
        """The mean square of the difference."""
        return mean_square(self.apart)

    @property
    def rounding(self) -> float:
        """The mean square of what a rounding of the inputs does."""
        return float("nan") if self.moved is None else mean_square(self.moved)


@dataclass(frozen=True, eq=False)
class Place:
    """All comparisons of one head, or of the combined write."""

    prefix: Compared
    full: Compared
    relation: Compared
    native: Compared
    probable: Float[Tensor, "rows width"]
    self_mass: float


def mean_square(numbers: Tensor) -> float:
    """The mean of the squares."""
    return float(numbers.square().mean())


def compare_heads(rows: Sequence[Continuation], heads: Sequence[Head]) -> tuple[list[Place], Place]:
    """Every head, then all of them together."""
    errors = [local_error(row.layer, kernels=row.kernels) for row in rows]
    carries = [_carried(rows, head, number) for number, head in enumerate(heads)]
    places = []
    for number, head in enumerate(heads):
        budget, near = Budget(head), head.rounded()
        prefix, full = (
            torch.cat([weights.output for _, weights in portions])
            for portions in (head.prefix_weights("original"), head.full_weights())
        )
        native = torch.stack([row.layer.output[number] for row in rows]).double()
        sure, probable = (
            torch.stack([getattr(error, name)[number] for error in errors]) + carries[number]
            for name in ("output", "probable_output")
        )
        places.append(
            Place(
                Compared(
                    prefix,
                    head.prefix.output,
                    budget.prefix(),
                    near.prefix.output - head.prefix.output,
                ),
                Compared(
                    full, head.full.output, budget.full(), near.full.output - head.full.output
                ),
                Compared(head.relation, head.full.output, budget.relation()),
                Compared(full, native, sure),
                probable,
                float(head.self_mass.mean()),
            )
        )
    return places, _combined(rows, places, errors, carries)


def _carried(rows: Sequence[Continuation], head: Head, number: int) -> Tensor:
    """What the rounding of the native query brings to y, to all orders.

    The native query differs from xW + b by what is measured here (and held to its bound elsewhere), scores by
    δ_j, and y by Σ p (e^δ − 1)(v − y)/Σ p e^δ.
    """
    native = torch.stack([row.layer.query[number] for row in rows]).double()
    keys = torch.cat(
        [head.keys.expand(len(rows), *head.keys.shape), head.own_keys.unsqueeze(-2)], -2
    )
    moved = torch.matmul(keys, (native - head.query).unsqueeze(-1)).squeeze(-1).abs() * abs(
        head.scaling
    )
    growth = torch.expm1(moved) * torch.exp(moved.amax(-1, keepdim=True))
    return ((head.full.probs * growth).unsqueeze(-1) * head.full.centred.abs()).sum(-2)


def _combined(
    rows: Sequence[Continuation],
    places: Sequence[Place],
    errors: Sequence[LocalError],
    carries: Sequence[Tensor],
) -> Place:
    """The projected write of all heads, with the bias."""
    layer = rows[0].layer
    weights, bias = layer.output_projection.double(), layer.output_bias
    constant = 0.0 if bias is None else bias.double()

    def write(parts: Sequence[Tensor]) -> Tensor:
        return summed(parts, weights) + constant

    def spread(parts: Sequence[Tensor]) -> Tensor:
        return summed(parts, weights.abs())

    def both(name: str) -> Compared:
        parts: list[Compared] = [getattr(place, name) for place in places]
        sizes = spread([part.one.abs() + part.other.abs() for part in parts])
        steps = projection_steps(layer)
        bound = spread([part.bound for part in parts]) + steps * (sizes + 2 * abs(constant))
        moved = [part.moved for part in parts if part.moved is not None]
        change = write(moved) - constant if moved else None
        return Compared(
            write([p.one for p in parts]), write([p.other for p in parts]), bound, change
        )

    carried = spread(carries)
    sure, probable = (
        torch.stack([getattr(error, name) for error in errors]) + carried
        for name in ("write", "probable_write")
    )
    native = torch.stack([row.layer.write for row in rows]).double()
    full = both("full")
    mass = sum(place.self_mass for place in places) / len(places)
    return Place(
        both("prefix"), full, both("relation"), Compared(full.one, native, sure), probable, mass
    )


def summed(parts: Sequence[Tensor], weights: Tensor) -> Tensor:
    """Σ_h y_h W_h over the heads."""
    return torch.einsum("hrv,hvm->rm", torch.stack(list(parts)), weights)


def projection_steps(layer: LayerCapture) -> float:
    """Relative rounding of a projection of all heads: sums over heads and width."""
    heads, width, _ = layer.output_projection.shape
    return (heads * width + 4) * UNIT
