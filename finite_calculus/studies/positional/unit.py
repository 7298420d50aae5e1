"""One prompt set: every variant captured once, and everything that the study asks of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from finite_calculus.harness import Check, Policy, Row, UnitResult, compare
from finite_calculus.models import Instrument, LayerCapture, LocalComparison, Outcome, compare_all
from finite_calculus.models.edits import Edits
from finite_calculus.studies.positional.calibration import calibration_part
from finite_calculus.studies.positional.deletions import deletion_part, list_deletions
from finite_calculus.studies.positional.interactions import interaction_part
from finite_calculus.studies.positional.predictors import known_shifts
from finite_calculus.studies.positional.reorderings import reordering_part
from finite_calculus.studies.positional.repairs import list_choices, repair_part
from finite_calculus.studies.positional.settings import PositionalSettings, depths
from finite_calculus.studies.positional.shifts import list_shifts, shift_part
from finite_calculus.studies.positional.variant import (
    Checks,
    Part,
    Variant,
    capture_variant,
    violations,
)
from finite_calculus.tasks.prompt_sets import GAP, STREAMS
from finite_calculus.tasks.set_tokens import SetTokens


@dataclass(frozen=True, eq=False)
class Executed:
    """Counterfactuals of one variant, executed on the shared path and compared locally."""

    outcomes: Sequence[Outcome]
    comparisons: Sequence[LocalComparison]

    def share(self, sizes: Sequence[int]) -> list["Executed"]:
        """Consecutive parts of these sizes."""
        stops = [sum(sizes[: n + 1]) for n in range(len(sizes))]
        return [
            Executed(self.outcomes[stop - size : stop], self.comparisons[stop - size : stop])
            for stop, size in zip(stops, sizes, strict=True)
        ]


def run_set(
    instrument: Instrument, settings: PositionalSettings, tokens: SetTokens, policy: Policy | None
) -> UnitResult:
    """Calibrate on a set, or test on it under the policy of the calibration."""
    if policy is None:
        return _calibrate(instrument, settings, tokens)
    layers, repaired = policy["layers"], policy["repair_layer"]
    rows: dict[str, list[Row]] = {}
    checks: dict[str, list[tuple[float, float]]] = {}
    tensors: dict[str, Tensor] = {}

    def keep(table: str, part: Part) -> None:
        rows.setdefault(table, []).extend(part.rows)
        for name, pairs in part.checks.items():
            checks.setdefault(name, []).extend(pairs)

    variants: list[Variant] = []
    for number in tokens.text.variants:
        wanted = {*layers, repaired} if number == 0 else {*layers}
        variant = capture_variant(instrument, tokens, number, sorted(wanted))
        variants.append(variant)
        shifts = list_shifts(layers, settings.shifts)
        deletions = list_deletions(policy["deletion_layers"], len(variant.prompt.spans))
        layer = variant.capture.layer(repaired) if number == 0 else None
        choices = [] if layer is None else list_choices(layer, _seed(settings, tokens))
        # Methods that restore the same entries share one execution.
        repairs = {} if layer is None else {c.kept: c.edits(layer) for c in choices}
        edits: list[Edits] = [*(each.edit(variant) for each in (*shifts, *deletions))]
        edits += repairs.values()
        second = number == 0 and tokens.text.index < settings.second_sets
        known = known_shifts(
            instrument, variant.capture, [shift.edit(variant) for shift in shifts], second=second
        )
        executed = execute_edits(instrument, variant, edits, settings.batch)
        parts = executed.share([len(shifts), len(deletions), len(repairs)])
        keep("edits", shift_part(variant, shifts, known, parts[0].outcomes, parts[0].comparisons))
        keep(
            "deletions", deletion_part(variant, deletions, parts[1].outcomes, parts[1].comparisons)
        )
        if layer is not None:
            outcomes = dict(zip(repairs, parts[2].outcomes, strict=True))
            keep("repairs", repair_part(variant, layer, choices, outcomes, parts[2].comparisons))
        keep("interactions", interaction_part(variant, layers, settings.shifts))
        tensors |= saved_tensors(variant, layers, parts[0].outcomes, parts[1].outcomes)
    keep("reorderings", reordering_part(variants[0], variants[1:GAP], layers))
    return UnitResult(rows, _listed(checks), tensors)


def _calibrate(
    instrument: Instrument, settings: PositionalSettings, tokens: SetTokens
) -> UnitResult:
    """Shifts and exact repairs of the original order at every depth; writes are checked by the test."""
    layers = depths(len(instrument.support.sites))
    variant = capture_variant(instrument, tokens, 0, layers)
    shifts = list_shifts(layers, settings.shifts)
    edits = [shift.edit(variant) for shift in shifts]
    execution = instrument.execute(variant.capture, edits, batch=settings.batch, path="shared")
    known = known_shifts(instrument, variant.capture, edits, second=False)
    effects = {
        n: [o.effect for o, s in zip(execution.outcomes, shifts, strict=True) if s.layer == n]
        for n in layers
    }
    rows = calibration_part(variant, known, effects, _seed(settings, tokens))
    checks = {"calibration: numbers that are not finite": violations(rows)}
    return UnitResult({"calibration": rows}, _listed(checks))


def execute_edits(
    instrument: Instrument, variant: Variant, edits: Sequence[Edits], batch: int
) -> Executed:
    """Execute all edits of a variant on the shared path."""
    outcomes = instrument.execute(variant.capture, edits, batch=batch, path="shared").outcomes
    return Executed(outcomes, list(compare_all(edits, outcomes)))


def _seed(settings: PositionalSettings, tokens: SetTokens) -> tuple[int, ...]:
    """What random restoration of a set draws from."""
    return (settings.seed, STREAMS.index(tokens.text.stream), tokens.text.index)


def _listed(checks: Checks) -> list[Check]:
    return [compare(name, pairs) for name, pairs in checks.items()]


def saved_tensors(
    variant: Variant,
    layers: Sequence[int],
    shifted: Sequence[Outcome],
    deleted: Sequence[Outcome],
) -> dict[str, Tensor]:
    """What a replay needs of a variant: its captured layers, and the executed changes of the write."""
    tensors: dict[str, Tensor] = {}
    for number in layers:
        layer: LayerCapture = variant.capture.layer(number)
        tensors |= {
            f"{variant.number}.{number}.{name}": getattr(layer, name)
            for name in ("query", "keys", "values", "gradient_write")
        }
        tensors[f"{variant.number}.{number}.scaling"] = torch.tensor(
            [layer.scaling], dtype=torch.float64
        )
    spans = variant.prompt.spans
    tensors[f"{variant.number}.spans"] = torch.tensor(spans)
    for name, outcomes in (("shift", shifted), ("deletion", deleted)):
        moved = [outcome.write.double() - outcome.control_write.double() for outcome in outcomes]
        tensors[f"{variant.number}.{name}_writes"] = torch.stack(moved)
    return tensors
