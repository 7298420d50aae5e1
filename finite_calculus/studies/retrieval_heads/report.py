"""Tables of the study of retrieval heads, from its records alone."""

from collections.abc import Iterator, Sequence

import numpy as np

from finite_calculus.harness import Interval, Records, Table, paired_interval
from finite_calculus.harness.metrics import (
    correlation,
    mean_error,
    sign_accuracy,
    unresolved_note,
)
from finite_calculus.studies.retrieval_heads.finding import contrasts
from finite_calculus.studies.retrieval_heads.rows import HeadScore, Recall, SingleLayer
from finite_calculus.studies.retrieval_heads.settings import HeadSettings


def report(settings: HeadSettings, records: Records) -> Iterator[Table]:
    """Which heads, what zeroed planes do to recall, and how it is predicted a layer at a time."""
    yield _heads(settings, records.rows(HeadScore))
    recalls = records.rows(Recall)
    if recalls:
        yield _recall(settings, recalls)
        yield _against_random(settings, recalls)
        yield _single(records.rows(SingleLayer))


def _heads(settings: HeadSettings, rows: Sequence[HeadScore]) -> Table:
    scores = contrasts(rows)
    chosen = sorted(scores, key=lambda head: -scores[head])[: settings.heads]
    lines = []
    for layer, head in chosen:
        own = [row for row in rows if (row.layer, row.head) == (layer, head)]
        target = float(np.mean([row.target for row in own]))
        first = 100 * float(np.mean([row.first for row in own]))
        lines.append((layer, head, scores[layer, head], target, first))
    columns = ("layer", "head", "contrast", "attention to the target", "target first %")
    note = (
        "Attention from the last token to the record that holds the answer; the contrast subtracts the "
        "mean over the seven other records, and ranks the heads. One record in eight is first by chance."
    )
    return Table("heads", "Retrieval heads", columns, tuple(lines), note)


def _recall(settings: HeadSettings, rows: Sequence[Recall]) -> Table:
    lines = []
    for task in dict.fromkeys(row.task for row in rows):
        own = [row for row in rows if row.task == task]
        controls = {row.set: row.control for row in own}
        unedited = 100 * float(np.mean([margin > 0 for margin in controls.values()]))
        lines.append((task, "–", "none", "–", 0, unedited, 0.0, 0.0, 0.0, 0.0))
        for key in dict.fromkeys((r.heads, r.band, r.queries, r.planes) for r in own):
            alike = [r for r in own if (r.heads, r.band, r.queries, r.planes) == key]
            change = _change(settings, alike, [row.control for row in alike])
            right = 100 * float(np.mean([row.margin > 0 for row in alike]))
            moved = float(np.mean([row.margin - row.control for row in alike]))
            lines.append((task, *key, right, change.estimate, change.low, change.high, moved))
    columns = ("task", "heads", "planes zeroed", "queries", "planes", "recall %", "change %", "low",
               "high", "mean Δm")  # fmt: skip
    title = "Recall with rotary planes of heads set to zero"
    return Table("recall", title, columns, tuple(lines), _note(settings))


def _against_random(settings: HeadSettings, rows: Sequence[Recall]) -> Table:
    lines = []
    for task, heads, queries in dict.fromkeys((r.task, r.heads, r.queries) for r in rows):
        own = [r for r in rows if (r.task, r.heads, r.queries) == (task, heads, queries)]
        slow, random = ([r for r in own if r.band == band] for band in ("slow", "random"))
        change = _change(settings, slow, [row.margin for row in random])
        recall = [100 * float(np.mean([r.margin > 0 for r in part])) for part in (slow, random)]
        lines.append((task, heads, queries, *recall, change.estimate, change.low, change.high))
    columns = ("task", "heads", "queries", "slow recall %", "random recall %", "difference %", "low",
               "high")  # fmt: skip
    title = "The slowest planes against random ones"
    return Table("anchor", title, columns, tuple(lines), _note(settings))


def _change(settings: HeadSettings, rows: Sequence[Recall], others: Sequence[float]) -> Interval:
    """Recall in percent minus that of other margins on the same prompts."""
    return paired_interval(
        np.asarray([100.0 * (row.margin > 0) for row in rows]),
        np.asarray([100.0 * (margin > 0) for margin in others]),
        np.asarray([row.cluster for row in rows]),
        resamples=settings.resamples,
        coverage=settings.coverage,
        seed=settings.bootstrap_seed,
    )


def _single(rows: Sequence[SingleLayer]) -> Table:
    lines = []
    for band in dict.fromkeys(row.band for row in rows):
        own = [row for row in rows if row.band == band]
        predicted = np.asarray([row.predicted for row in own])
        executed = np.asarray([row.effect for row in own])
        sign = sign_accuracy(predicted, executed)
        lines.append(
            (band, len(own), mean_error(predicted, executed), float(np.abs(executed).mean()),
             None if sign is None else 100 * sign, correlation(predicted, executed))
        )  # fmt: skip
    columns = ("planes zeroed", "edits", "finite MAE", "zero MAE", "sign accuracy %", "Pearson r")
    note = (
        "Retrieval heads of one layer at the last query: exact local response along the baseline's "
        "gradient against the executed change of the margin."
    )
    note += unresolved_note(row.resolved for row in rows)
    return Table("single", "One layer at a time", columns, tuple(lines), note)


def _note(settings: HeadSettings) -> str:
    return (
        f"Recall: the right candidate has the largest logit, of A and B, or of eight colours; half and one "
        f"in eight are chance. All heads of a kind together; other heads are as many, at random. "
        f"{100 * settings.coverage:g}% percentile "
        f"intervals of {settings.resamples} resamples of the prompts (seed {settings.bootstrap_seed})."
    )
