"""Tables of the satellites: interaction of bands, reordering, deletions, precision repair."""

from collections.abc import Iterator, Sequence

import numpy as np

from finite_calculus.harness import Table, paired_interval
from finite_calculus.studies.positional.rows import (
    BandInteraction,
    Reordering,
    Repair,
    SpanDeletion,
)
from finite_calculus.studies.positional.statistics import (
    Bootstrap,
    grouped,
    set_mean,
    set_sign_accuracy,
)

# What exact greedy selection is compared with: method and whether it is re-scored.
CONTRASTS = (
    ("second-order", True),
    ("second-order", False),
    ("exact", False),
    ("first-order", False),
    ("attention", False),
    ("value-norm", False),
    ("fisher", False),
    ("random", False),
)
# Magnitudes that rank deletions, by column.
RANKINGS = ("predicted_finite", "predicted_jacobian", "attention", "value_norm")


def interaction_table(rows: Sequence[BandInteraction], bootstrap: Bootstrap) -> Table:
    """Fast–middle interaction in percent of the joint effect (eq:interactionmetric)."""
    lines = []
    for key, alike in grouped(rows, lambda row: (row.task, row.layer, row.shift)):
        clusters = np.asarray([row.cluster for row in alike])
        shares = [
            np.asarray([100 * getattr(row, form) / row.joint for row in alike])
            for form in ("closed", "cells")
        ]
        interval = paired_interval(shares[0], np.zeros(len(alike)), clusters, **bootstrap.options())
        cells = set_mean(shares[1], clusters.tolist())
        numbers = (interval.estimate, interval.low, interval.high, cells)
        lines.append((*key, *numbers, float(np.median(shares[0]))))
    columns = ("task", "layer", "shift", "interaction %", "low", "high", "four cells %", "median %")
    note = (
        f"‖H‖ over ‖T‖ of the projected local write, in percent, by the closed form and by four readouts. A "
        f"mean of ratios is large where the joint effect of a prompt nearly vanishes; the median is not. "
        f"{bootstrap.words()}."
    )
    return Table("interaction", "Fast–middle interaction", columns, tuple(lines), note)


def reordering_table(rows: Sequence[Reordering], bootstrap: Bootstrap) -> Table:
    """Pooled signed projections, which sum to one."""
    lines = []
    for key, alike in grouped(rows, lambda row: (row.task, row.layer)):
        clusters = [row.cluster for row in alike]
        total = [row.total for row in alike]
        figures: list[float] = []
        for part in ("phase", "context", "interaction"):
            share = bootstrap.ratio([getattr(row, part) for row in alike], total, clusters)
            figures += [share.estimate, share.low, share.high]
        lines.append((*key, *figures, sum(figures[::3])))
    columns = ("task", "layer", "phase", "phase low", "phase high", "context", "context low",
               "context high", "interaction", "interaction low", "interaction high", "sum")  # fmt: skip
    note = (
        f"Σ⟨X, T⟩/Σ‖T‖² over the three reorderings without a gap, at the projected write of the last "
        f"query; context includes what upstream layers made of the new order. {bootstrap.words()}."
    )
    return Table("reordering", "Phase, context and interaction", columns, tuple(lines), note)


def deletion_table(rows: Sequence[SpanDeletion]) -> Table:
    """Rank correlation of predicted and executed magnitudes, inside a prompt and variant, then averaged."""
    lines = []
    for key, alike in grouped(rows, lambda row: (row.task, row.layer)):
        prompts = [part for _, part in grouped(alike, lambda row: (row.set, row.variant))]
        clusters = [part[0].cluster for part in prompts]
        executed = np.abs([[row.effect for row in part] for part in prompts])
        correlations = []
        for column in RANKINGS:
            sizes = np.abs([[getattr(row, column) for row in part] for part in prompts])
            correlations.append(_mean_spearman(sizes, executed, clusters))
        signs = [
            set_sign_accuracy(
                [getattr(row, column) for row in alike],
                [row.effect for row in alike],
                [row.cluster for row in alike],
            )
            for column in RANKINGS[:2]
        ]
        lines.append((*key, len(prompts), *correlations, *signs))
    columns = ("task", "layer", "prompts", "finite", "Jacobian", "attention", "value norm",
               "finite sign %", "Jacobian sign %")  # fmt: skip
    note = (
        "Spearman's correlation of magnitudes over the eight demonstrations of a prompt, averaged over the "
        "variants of a set and then over sets; a prompt whose magnitudes are all equal has none."
    )
    return Table("deletion", "Attribution of deletions", columns, tuple(lines), note)


def spearman(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Spearman's correlation of each row; NaN where the magnitudes of a side are all equal."""
    from scipy.stats import rankdata  # slow to import, and only this needs it

    ranks = [rankdata(part, axis=1) for part in (first, second)]
    centred = [part - part.mean(axis=1, keepdims=True) for part in ranks]
    sizes = [np.sqrt((part * part).sum(axis=1)) for part in centred]
    products = (centred[0] * centred[1]).sum(axis=1)
    known = (sizes[0] > 0) & (sizes[1] > 0)
    return np.where(known, products / np.where(known, sizes[0] * sizes[1], 1.0), np.nan)


def _mean_spearman(first: np.ndarray, second: np.ndarray, clusters: Sequence[str]) -> float | None:
    """Their mean over sets; None where no row has one."""
    correlations = spearman(first, second)
    known = np.isfinite(correlations)
    if not known.any():
        return None
    sets = [c for c, here in zip(clusters, known, strict=True) if here]
    return set_mean(correlations[known], sets)


def repair_tables(rows: Sequence[Repair], bootstrap: Bootstrap) -> Iterator[Table]:
    """Relative errors of every method, and exact greedy selection against each other one."""
    lines = []
    for key, alike in grouped(rows, lambda row: (row.task, row.bits, row.entries)):
        for method in (("exact", True), *CONTRASTS):
            chosen = _chosen(alike, method)
            clusters = [row.cluster for row in chosen]
            error = set_mean([row.relative_error for row in chosen], clusters)
            executed = set_mean([abs(row.effect) for row in chosen], clusters)
            without = set_mean([abs(row.unrepaired) for row in chosen], clusters)
            lines.append((*key, *_words(method), error, executed, without))
    columns = ("task", "bits", "entries", "method", "scores", "relative RMSE",
               "executed |Δm|", "without repair")  # fmt: skip
    note = (
        "‖write error‖ after restoring some entries over that before (eq:repairmetric), mean over sets; "
        "beside it the executed change of the margin, which no method looks at."
    )
    yield Table("repair", "Precision repair", columns, tuple(lines), note)
    yield _contrasts(rows, bootstrap)


def _contrasts(rows: Sequence[Repair], bootstrap: Bootstrap) -> Table:
    lines = []
    for key, alike in grouped(rows, lambda row: (row.task, row.bits, row.entries)):
        exact = _chosen(alike, ("exact", True))
        for method in CONTRASTS:
            other = _chosen(alike, method)
            interval = paired_interval(
                np.asarray([row.relative_error for row in exact]),
                np.asarray([row.relative_error for row in other]),
                np.asarray([row.cluster for row in exact]),
                **bootstrap.options(),
            )
            numbers = (interval.estimate, interval.low, interval.high)
            below = "yes" if interval.favours_first else "no"
            lines.append((*key, *_words(method), *numbers, below))
    columns = ("task", "bits", "entries", "against", "scores", "difference", "low", "high",
               "below zero")  # fmt: skip
    note = (
        "Relative RMSE of exact greedy selection, re-scored after every restoration, minus that of another "
        "method. Second order re-scored is the matched control: it differs in the scores alone; exact "
        f"scored once differs in the re-scoring alone. {bootstrap.words()}."
    )
    return Table(
        "repair-contrasts", "Exact greedy repair against others", columns, tuple(lines), note
    )


def _chosen(rows: Sequence[Repair], method: tuple[str, bool]) -> list[Repair]:
    chosen = [row for row in rows if (row.method, row.rescored) == method]
    return sorted(chosen, key=lambda row: row.set)


def _words(method: tuple[str, bool]) -> tuple[str, str]:
    return method[0], "after each" if method[1] else "once"
