"""The findings of the paper's section as contrasts with intervals, signed so that above zero agrees.

Whether a pattern that the paper saw on its model is there on another one can be read off: it is, where the
whole interval lies above zero. Shares of a total are findings without a sign, and marked so.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from finite_calculus.harness import Interval, Records, Table
from finite_calculus.studies.positional.edit_tables import errors, predictions
from finite_calculus.studies.positional.part_tables import RANKINGS, spearman
from finite_calculus.studies.positional.rows import (
    BandInteraction,
    PositionalEdit,
    Reordering,
    Repair,
    SpanDeletion,
)
from finite_calculus.studies.positional.statistics import Bootstrap, grouped

# A finding, in what it is measured, and its interval.
Finding = tuple[str, str, Interval]


def findings_table(records: Records, whole: Bootstrap, part: Bootstrap) -> Table:
    """Every finding of every task."""
    lines = []
    kinds = (PositionalEdit, BandInteraction, Reordering, SpanDeletion, Repair)
    # Read once: a table of the whole study has 92,160 rows.
    listed: dict[Any, Sequence[Any]] = {kind: records.rows(kind) for kind in kinds}
    tasks = dict.fromkeys(row.task for row in listed[PositionalEdit])

    def of_task(kind: Any, task: str) -> list[Any]:
        return [row for row in listed[kind] if row.task == task]

    for task in tasks:
        found = [
            *_shifts(of_task(PositionalEdit, task), whole),
            *_interaction(of_task(BandInteraction, task), part),
            *_reordering(of_task(Reordering, task), part),
            *_deletions(of_task(SpanDeletion, task), whole),
            *_repairs(of_task(Repair, task), part),
        ]
        for name, unit, interval in found:
            numbers = (interval.estimate, interval.low, interval.high)
            lines.append((name, task, unit, *numbers, interval.clusters))
    columns = ("finding", "task", "in", "figure", "low", "high", "sets")
    note = (
        f"Above zero where the pattern is the paper's; a share has no such sign. {whole.words()}; "
        f"{part.resamples} for interaction, reordering and repair."
    )
    return Table("findings", "What the paper found, here", columns, tuple(lines), note)


def _shifts(rows: Sequence[PositionalEdit], bootstrap: Bootstrap) -> Iterator[Finding]:
    clusters = [row.cluster for row in rows]
    off = {name: errors(rows, name) for name in ("finite", "Jacobian", "zero")}
    for other in ("zero", "Jacobian"):
        reduction = bootstrap.reduction(off["finite"], off[other], clusters)
        yield f"finite errs less than {other}", "%", reduction
    yield (
        "zero errs less than Jacobian",
        "%",
        bootstrap.reduction(off["zero"], off["Jacobian"], clusters),
    )
    moved = [row for row in rows if row.effect != 0]
    signs = np.sign([row.effect for row in moved])
    right = {n: np.sign(predictions(moved, n)) == signs for n in ("finite", "Jacobian")}
    gap = 100.0 * (right["finite"].astype(float) - right["Jacobian"].astype(float))
    yield "signs: finite over Jacobian", "points", bootstrap.mean(gap, [r.cluster for r in moved])
    known = [row for row in rows if row.predicted_second is not None]
    if known:
        second, finite = (errors(known, name) for name in ("second", "finite"))
        below = bootstrap.reduction(second, finite, [row.cluster for row in known])
        yield "second order downstream errs less than finite", "%", below


def _interaction(rows: Sequence[BandInteraction], bootstrap: Bootstrap) -> Iterator[Finding]:
    shares = {
        (row.set, row.variant, row.layer, row.shift): 100 * row.closed / row.joint for row in rows
    }
    small, large = min(row.shift for row in rows), max(row.shift for row in rows)
    places = [key[:3] for key in shares if key[3] == small]
    grown = [shares[*place, large] - shares[*place, small] for place in places]
    sets = [str(place[0]) for place in places]
    yield f"interaction grows from shift {small} to {large}", "points", bootstrap.mean(grown, sets)


def _reordering(rows: Sequence[Reordering], bootstrap: Bootstrap) -> Iterator[Finding]:
    first = min(row.layer for row in rows)
    parts: tuple[tuple[str, str, Callable[[Reordering], bool]], ...] = (
        ("phase", "the first layer", lambda row: row.layer == first),
        ("phase", "the layers above", lambda row: row.layer > first),
        ("context", "the layers above", lambda row: row.layer > first),
    )
    for part, where, chosen in parts:
        alike = [row for row in rows if chosen(row)]
        if alike:
            above, below = [getattr(row, part) for row in alike], [row.total for row in alike]
            share = bootstrap.ratio(above, below, [row.cluster for row in alike])
            yield f"{part} in {where}", "share", share


def _deletions(rows: Sequence[SpanDeletion], bootstrap: Bootstrap) -> Iterator[Finding]:
    prompts = [each for _, each in grouped(rows, lambda row: (row.set, row.variant, row.layer))]
    executed = np.abs([[row.effect for row in each] for each in prompts])
    ranks = {}
    for column in RANKINGS:
        sizes = np.abs([[getattr(row, column) for row in each] for each in prompts])
        ranks[column] = spearman(sizes, executed)
    finite, *others = RANKINGS
    words = ("Jacobian", "attention", "value norm")
    for other, word in zip(others, words, strict=True):
        gap = ranks[finite] - ranks[other]
        known = np.isfinite(gap)
        sets = [each[0].cluster for each, here in zip(prompts, known, strict=True) if here]
        yield f"deletions: finite ranks better than {word}", "ρ", bootstrap.mean(gap[known], sets)


def _repairs(rows: Sequence[Repair], bootstrap: Bootstrap) -> Iterator[Finding]:
    most = max(row.entries for row in rows)
    contrasts = (
        ("exact beats second order, both re-scored", ("second-order", True)),
        ("exact re-scored beats second order once", ("second-order", False)),
        ("exact re-scored beats exact once", ("exact", False)),
    )
    for bits, alike in grouped(rows, lambda row: row.bits):
        error = {
            (row.method, row.rescored, row.set): row.relative_error
            for row in alike
            if row.entries == most
        }
        sets = [key[2] for key in error if key[:2] == ("exact", True)]
        for name, other in contrasts:
            gap = [error[*other, n] - error["exact", True, n] for n in sets]
            yield f"{bits} bits: {name}", "relative RMSE", bootstrap.mean(gap, list(map(str, sets)))
