"""Executing what a search proposes: predicted effect, executed effect and local write error side by side.

The local error is measured against the exact write and held to its float32 bound; the gap between
predicted and executed effect is what the rest of the network adds, and nothing bounds it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch

from finite_calculus.models import Instrument
from finite_calculus.models.comparison import LocalCheck, compare_all
from finite_calculus.search.certificates import intervals
from finite_calculus.search.settle import settle
from finite_calculus.search.table import ScoreRow, ScoreTable, Side, sign_of

Stop = Literal["certified", "calibrated", "settled", "budget", "exhausted"]


@dataclass(frozen=True)
class ExecutedRow:
    """One candidate executed natively: the executed change of the margin, and its local check."""

    row: ScoreRow
    effect: float
    margin: float
    local: LocalCheck


@dataclass(frozen=True)
class Verification:
    """The best candidates by executed effect, and why the execution stopped.

    `stopped` is "certified" if certificates separate the predicted top from everything else, in order;
    "calibrated" if the estimated probability `missed` that a row that was not executed belongs
    there is below one minus the level of the table's band; "settled" if a further round changed
    nothing in the executed top; else "budget" or "exhausted". `executed` holds all that was run with
    a local check, in the order of prediction. `missed` is None for a table that is not calibrated;
    `spent` counts what `settle` executed besides, on the shared path.
    """

    top: tuple[ExecutedRow, ...]
    executed: tuple[ExecutedRow, ...]
    stopped: Stop
    budget: int
    missed: float | None = None
    spent: int = 0


def execute_rows(
    instrument: Instrument,
    table: ScoreTable,
    indices: Sequence[int],
    *,
    batch: int = 32,
    quiet: bool = True,
) -> tuple[ExecutedRow, ...]:
    """Execute rows of a table on the model, each from the untouched prefix."""
    edits = [table.edit(index) for index in indices]
    if not edits:
        return ()
    outcomes = instrument.execute(table.capture, edits, batch=batch, quiet=quiet).outcomes
    comparisons = compare_all(edits, outcomes)
    return tuple(
        ExecutedRow(table.row(index), outcome.effect, outcome.margin, LocalCheck.of(local))
        for index, outcome, local in zip(indices, outcomes, comparisons, strict=True)
    )


def verify_top(
    instrument: Instrument,
    table: ScoreTable,
    count: int,
    *,
    budget: int = 64,
    towards: Side = "either",
    batch: int = 32,
    quiet: bool = True,
) -> Verification:
    """Execute candidates in predicted order until the top `count` settles or the budget is used.

    In a calibrated table the likeliest candidates are executed until it is improbable that another one
    belongs to the top (`settle`), and the top is executed again natively. Otherwise it counts as settled
    when a round of `count` further executions leaves its members and their order unchanged. If the
    certificates already order it strictly above all others, one round is run.
    """
    if not 1 <= count <= budget:
        raise ValueError(
            f"`budget` must be at least `count`, the candidates to settle; got {budget} and {count}."
        )
    if table.downstream is not None and table.downstream.calibrated is not None:
        return _calibrated(instrument, table, count, budget, towards, batch, quiet)
    order = table.order(min(budget, len(table)), by="predicted", towards=towards)
    certain = certified_top(table, count, towards=towards)
    rows: tuple[ExecutedRow, ...] = ()
    best: list[int] = []
    while len(rows) < len(order):
        indices = order[len(rows) : len(rows) + count]
        rows += execute_rows(instrument, table, indices, batch=batch, quiet=quiet)
        previous, best = best, [item.row.index for item in _ranked(rows, towards)[:count]]
        if certain:
            return _verification(rows, count, towards, "certified", budget)
        if best == previous and len(best) == count:
            return _verification(rows, count, towards, "settled", budget)
    exhausted = len(order) == len(table)
    return _verification(rows, count, towards, "exhausted" if exhausted else "budget", budget)


def _calibrated(
    instrument: Instrument,
    table: ScoreTable,
    count: int,
    budget: int,
    towards: Side,
    batch: int,
    quiet: bool,
) -> Verification:
    """The top by all executions, the sample's among them, run natively for its local checks."""
    count = min(count, len(table))
    settled = settle(
        instrument, table, count, budget=budget, towards=towards, batch=2 * batch, quiet=quiet
    )
    sign = sign_of(towards)
    sizes = (settled.effects * sign if sign else settled.effects.abs()).nan_to_num(nan=-torch.inf)
    rows = execute_rows(
        instrument, table, sizes.topk(count).indices.tolist(), batch=batch, quiet=quiet
    )
    enough = settled.missed <= 1 - table.calibrated.level
    stopped: Stop = "calibrated" if enough else "budget"
    return replace(
        _verification(rows, count, towards, stopped, budget),
        missed=settled.missed,
        spent=settled.spent,
    )


def certified_top(table: ScoreTable, count: int, *, towards: Side = "either") -> bool:
    """Whether certificates put the predicted top in strict order and above every other candidate.

    By absolute effect, an interval counts as its distance from zero. False without a certificate.
    """
    if table.certificate is None:
        return False
    lower, above = intervals(table.certificate)
    sign = sign_of(towards)
    if not sign:
        farthest = torch.maximum(above.abs(), lower.abs())
        nearest = torch.where((lower > 0) | (above < 0), torch.minimum(lower.abs(), above.abs()), 0)
        lower, above = nearest, farthest
    elif sign < 0:
        lower, above = -above, -lower
    chosen = table.order(count, towards=towards)
    others = torch.ones(len(table), dtype=torch.bool)
    others[chosen] = False
    floors = [*(float(above[index]) for index in chosen[1:])]
    floors.append(float(above[others].max()) if bool(others.any()) else -torch.inf)
    return all(float(lower[i]) > floor for i, floor in zip(chosen, floors, strict=True))


def _ranked(rows: tuple[ExecutedRow, ...], towards: Side) -> list[ExecutedRow]:
    sign = sign_of(towards)
    return sorted(rows, key=lambda e: sign * e.effect if sign else abs(e.effect), reverse=True)


def _verification(
    rows: tuple[ExecutedRow, ...], count: int, towards: Side, stopped: Stop, budget: int
) -> Verification:
    return Verification(tuple(_ranked(rows, towards)[:count]), rows, stopped, budget)
