"""One context: every head reconstructed at every continuation, and the write they make together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.harness import Check, UnitResult, compare, count
from finite_calculus.models import Instrument, LocalError, local_error
from finite_calculus.models.bounds import query_error
from finite_calculus.models.projections import affine_query
from finite_calculus.studies.reconstruction.frozen import FrozenHead, freeze_anchor, frozen_row
from finite_calculus.studies.reconstruction.heads import GAUGES, UNIT, Budget, Head, head_of
from finite_calculus.studies.reconstruction.native import (
    Continuation,
    best_tokens,
    continue_prefix,
)
from finite_calculus.studies.reconstruction.rows import Frozen, Reconstruction
from finite_calculus.studies.reconstruction.settings import ReconstructionSettings
from finite_calculus.tasks.articles import ArticlePrefix

Pairs = list[tuple[float, float]]


@dataclass(frozen=True)
class Context:
    """A unit: the number of an article and its prefix."""

    number: int
    prefix: ArticlePrefix


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


def run_context(
    instrument: Instrument, settings: ReconstructionSettings, context: Context
) -> UnitResult:
    """All layers of one context."""
    tokens = best_tokens(instrument, context.prefix, settings.continuations)
    reconstructions: list[Reconstruction] = []
    frozen: list[Frozen] = []
    checks: list[Check] = []
    tensors: dict[str, Tensor] = {}
    for number in sorted(settings.layers):
        rows = continue_prefix(instrument, context.prefix, tokens, number, settings.batch)
        heads = [head_of([row.layer for row in rows], n) for n in range(rows[0].layer.heads)]
        places, own = _places(rows, heads)
        for head, place in enumerate([*places, own]):
            shown = head if head < len(heads) else None
            reconstructions.append(_row(context.number, number, shown, place))
        still = {gauge: [freeze_anchor(head, gauge) for head in heads] for gauge in GAUGES}
        frozen += _frozen(context.number, rows, still)
        checks += _checks(number, rows, [*places, own], still)
        tensors |= {f"{number}.{name}": tensor for name, tensor in _tensors(rows).items()}
    tensors["tokens"] = torch.tensor(tokens)
    return UnitResult({"reconstructions": reconstructions, "frozen": frozen}, checks, tensors)


def mean_square(numbers: Tensor) -> float:
    """The mean of the squares."""
    return float(numbers.square().mean())


def _places(rows: Sequence[Continuation], heads: Sequence[Head]) -> tuple[list[Place], Place]:
    """Every head, and all of them together."""
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
        return _summed(parts, weights) + constant

    def spread(parts: Sequence[Tensor]) -> Tensor:
        return _summed(parts, weights.abs())

    def both(name: str) -> Compared:
        parts: list[Compared] = [getattr(place, name) for place in places]
        sizes = spread([part.one.abs() + part.other.abs() for part in parts])
        steps = (weights.shape[0] * weights.shape[1] + 4) * UNIT
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


def _summed(parts: Sequence[Tensor], weights: Tensor) -> Tensor:
    """Σ_h y_h W_h over the heads."""
    return torch.einsum("hrv,hvm->rm", torch.stack(list(parts)), weights)


def _row(context: int, layer: int, head: int | None, place: Place) -> Reconstruction:
    return Reconstruction(
        context,
        layer,
        head,
        size=mean_square(place.full.other) ** 0.5,
        self_mass=place.self_mass,
        prefix_mse=place.prefix.mse,
        prefix_mse_bound=mean_square(place.prefix.bound),
        prefix_mse_rounding=place.prefix.rounding,
        full_mse=place.full.mse,
        full_mse_bound=mean_square(place.full.bound),
        full_mse_rounding=place.full.rounding,
        relation=float(place.relation.apart.max()),
        relation_bound=float(place.relation.bound.max()),
        native_mse=place.native.mse,
        native_mse_bound=mean_square(place.native.bound),
        native_mse_probable=mean_square(place.probable),
        native_largest=float(place.native.apart.max()),
        native_bound=float(place.native.bound.max()),
        native_probable=float(place.probable.max()),
    )


def _frozen(
    context: int, rows: Sequence[Continuation], still: dict[str, list[FrozenHead]]
) -> Iterator[Frozen]:
    layer = rows[0].layer
    weights = layer.output_projection.double()
    for gauge, heads in still.items():
        for number, head in enumerate(heads):
            yield frozen_row(context, layer.layer, number, gauge, head)
        together = FrozenHead(
            *(
                _summed([getattr(head, name) for head in heads], weights)
                for name in ("output", "frozen", "corrected")
            ),
            budget=_summed([head.budget for head in heads], weights.abs()),
            bound=None,
        )
        yield frozen_row(context, layer.layer, None, gauge, together)


def _checks(
    number: int,
    rows: Sequence[Continuation],
    places: Sequence[Place],
    still: dict[str, list[FrozenHead]],
) -> list[Check]:
    at = f"layer {number}: "
    checks = [
        check
        for name, part in (
            ("effective weights, prefix", "prefix"),
            ("effective weights, causal", "full"),
            ("self-mass relation", "relation"),
            ("native float32", "native"),
        )
        for check in _joined(at + name, [getattr(place, part) for place in places])
    ]
    queries: Pairs = []
    for row in rows:
        apart = (affine_query(row.layer) - row.layer.query.double()).abs()
        queries += zip(
            apart.flatten().tolist(), query_error(row.layer).flatten().tolist(), strict=True
        )
    checks.append(compare(at + "native query", queries))
    for gauge, heads in still.items():
        apart = [Compared(head.corrected, head.output, head.budget) for head in heads]
        checks += _joined(at + f"corrected readout, {gauge} gauge", apart)
        checks.append(
            compare(at + f"frozen error, {gauge} gauge", [head.worst_pair for head in heads])
        )
    checks.append(count(at + "prefix bank moved", [not row.same_bank for row in rows]))
    return checks


def _joined(name: str, parts: Sequence[Compared]) -> list[Check]:
    pairs: Pairs = []
    for part in parts:
        pairs += zip(part.apart.flatten().tolist(), part.bound.flatten().tolist(), strict=True)
    return [compare(name, pairs)]


def _tensors(rows: Sequence[Continuation]) -> dict[str, Tensor]:
    """The shared bank, and what every continuation adds to it."""
    first = rows[0].layer
    stacked = {
        "own_keys": [row.layer.keys[:, -1] for row in rows],
        "own_values": [row.layer.values[:, -1] for row in rows],
        "inputs": [row.layer.query_map()[0] for row in rows],
        "outputs": [row.layer.output for row in rows],
        "writes": [row.layer.write for row in rows],
    }
    attended = first.attended[:-1]
    constants = (first.scaling * first.rotary_scaling, float(first.position))
    return {
        "constants": torch.tensor(constants, dtype=torch.float64),
        "keys": first.keys[:, :-1][:, attended].contiguous(),
        "values": first.values[:, :-1][:, attended].contiguous(),
        **{name: torch.stack(listed) for name, listed in stacked.items()},
    }
