"""One context: every head reconstructed at every continuation, and the write they make together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from finite_calculus.harness import Check, UnitResult, compare, count
from finite_calculus.models import Instrument
from finite_calculus.models.bounds import query_error
from finite_calculus.models.projections import affine_query
from finite_calculus.studies.reconstruction.frozen import FrozenHead, freeze_anchor, frozen_row
from finite_calculus.studies.reconstruction.heads import GAUGES, head_of
from finite_calculus.studies.reconstruction.native import (
    Continuation,
    best_tokens,
    continue_prefix,
)
from finite_calculus.studies.reconstruction.places import (
    Compared,
    Place,
    compare_heads,
    mean_square,
    projection_steps,
    summed,
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
        places, own = compare_heads(rows, heads)
        for head, place in enumerate([*places, own]):
            shown = head if head < len(heads) else None
            reconstructions.append(_row(context.number, number, shown, place))
        still = {gauge: [freeze_anchor(head, gauge) for head in heads] for gauge in GAUGES}
        frozen += _frozen(context.number, rows, still)
        checks += _checks(number, rows, [*places, own], still)
        tensors |= {f"{number}.{name}": tensor for name, tensor in _tensors(rows).items()}
    tensors["tokens"] = torch.tensor(tokens)
    return UnitResult({"reconstructions": reconstructions, "frozen": frozen}, checks, tensors)


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
    weights, steps = layer.output_projection.double(), projection_steps(layer)
    for gauge, heads in still.items():
        for number, head in enumerate(heads):
            yield frozen_row(context, layer.layer, number, gauge, head)
        together = FrozenHead(
            *(
                summed([getattr(head, name) for head in heads], weights)
                for name in ("output", "frozen", "corrected")
            ),
            budget=summed([head.budget for head in heads], weights.abs())
            + steps * summed([2 * head.output.abs() for head in heads], weights.abs()),
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
        _joined(at + name, [getattr(place, part) for place in places])
        for name, part in (
            ("effective weights, prefix", "prefix"),
            ("effective weights, causal", "full"),
            ("self-mass relation", "relation"),
            ("native float32", "native"),
        )
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
        checks.append(_joined(at + f"corrected readout, {gauge} gauge", apart))
        checks.append(
            compare(at + f"frozen error, {gauge} gauge", [head.worst_pair for head in heads])
        )
    checks.append(count(at + "prefix bank moved", [not row.same_bank for row in rows]))
    return checks


def _joined(name: str, parts: Sequence[Compared]) -> Check:
    """Every entry of all parts against its own bound."""
    pairs: Pairs = []
    for part in parts:
        pairs += zip(part.apart.flatten().tolist(), part.bound.flatten().tolist(), strict=True)
    return compare(name, pairs)


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
