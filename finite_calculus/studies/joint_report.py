"""Tables of the joint study, from its records alone, in the order of the paper's."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from finite_calculus.studies.joint_results import (
    COMPARATORS,
    PREDICTORS,
    Row,
    Setting,
    results,
)
from finite_calculus.studies.metrics import correlation, mean_error, sign_accuracy, top_two_recall
from finite_calculus.studies.tables import Table, number

_IDENTITY = ("task", "layer", "pair", "span", "kind", "strength")
_LISTED = (
    *("task", "layer", "pair", "span", "effect", "part_key", "part_value", "part_interaction"),
    *("executed_interaction", "interaction_residual"),
)


def report(settings: Any, tables: Mapping[str, pa.Table]) -> list[Table]:
    """All tables of the study."""
    records, audit = tables["records"].to_pylist(), tables["audit"].to_pylist()
    full = [setting for setting in results(records, "joint") if setting.strength == 1]
    return [
        _coverage(full),
        _ranking(full),
        _paired(full, settings),
        _interaction(full),
        _single_kinds(records),
        _strengths(records, settings),
        _accuracy(records),
        _audit(settings, records, audit),
        _interventions(records),
    ]


def _coverage(full: list[Setting]) -> Table:
    rows = [
        (s.task, s.layer, *(mean_error(s.predicted(name), s.executed) for name in PREDICTORS))
        for s in full
    ]
    return Table(
        "coverage",
        "Margin MAE at full replacement",
        ("task", "layer", *PREDICTORS),
        tuple(rows),
        "Mean absolute error of the predicted margin change over all pairs and spans. The zero "
        "predictor's MAE is the mean size of the executed change.",
    )


def _ranking(full: list[Setting]) -> Table:
    rows = []
    for s in full:
        for name in PREDICTORS:
            if name == "zero":
                continue
            sign = sign_accuracy(s.predicted(name), s.executed)
            recall = top_two_recall(s.predicted(name), s.executed)
            rows.append((s.task, s.layer, name, 100 * recall, None if sign is None else 100 * sign))
    return Table(
        "ranking",
        "Influential spans and signs, in percent",
        ("task", "layer", "predictor", "top-two recall", "sign accuracy"),
        tuple(rows),
        "Ties go to the earlier span; signs are compared where the executed change is not zero. Both "
        "are undefined for the zero predictor.",
    )


def _paired(full: list[Setting], settings: Any) -> Table:
    rows = []
    for s in full:
        for name in COMPARATORS:
            found = s.contrast(name, settings)
            other = mean_error(s.predicted(name), s.executed)
            reduction = None if other == 0 else -100 * found.estimate / other
            state = "yes" if found.favours_first else "no"
            rows.append(
                (s.task, s.layer, name, found.estimate, found.low, found.high, reduction, state)
            )
    return Table(
        "paired",
        "Exact joint minus comparator: paired difference of MAE",
        ("task", "layer", "comparator", "difference", "low", "high", "reduction %", "below zero"),
        tuple(rows),
        f"Percentile {100 * settings.coverage:g}% intervals of {settings.resamples} resamples of the "
        f"pairs (seed {settings.bootstrap_seed}), all spans of a pair together; no adjustment for "
        f"multiplicity.",
    )


def _interaction(full: list[Setting]) -> Table:
    rows = []
    for s in full:
        executed = s.columns["executed_interaction"]
        exact, second = s.columns["part_interaction"], s.columns["part_quadratic"]
        rows.append(
            (
                s.task,
                s.layer,
                mean_error(exact, executed),
                mean_error(second, executed),
                correlation(exact.ravel(), executed.ravel()),
                float(np.abs(executed).mean()),
            )
        )
    return Table(
        "interaction",
        "The executed four-cell interaction and its predictions",
        ("task", "layer", "exact MAE", "quadratic MAE", "exact r", "mean |I|"),
        tuple(rows),
        "G(C_KV) and G(C_2) against the margin effect of both edits minus the effects of each alone.",
    )


def _single_kinds(records: Sequence[Row]) -> Table:
    rows = [
        (s.task, s.layer, kind, mean_error(s.predicted("exact joint"), s.executed),
         mean_error(s.predicted("zero"), s.executed))
        for kind in ("key", "value")
        for s in results(records, kind)
    ]  # fmt: skip
    return Table(
        "single",
        "Key-only and value-only replacements",
        ("task", "layer", "kind", "exact MAE", "zero MAE"),
        tuple(rows),
        "The interaction vanishes for these, and exact joint and separate coincide.",
    )


def _strengths(records: Sequence[Row], settings: Any) -> Table:
    every = list(results(records, "joint"))
    swept = {(s.task, s.layer) for s in every if s.strength != 1}
    rows = []
    for s in sorted(every, key=lambda item: (item.task, item.layer, item.strength)):
        if (s.task, s.layer) not in swept:
            continue
        gap = s.contrast("quadratic", settings)
        errors = [
            mean_error(s.predicted(name), s.executed) for name in ("exact joint", "quadratic")
        ]
        recall = 100 * top_two_recall(s.predicted("exact joint"), s.executed)
        rows.append((s.task, s.layer, s.strength, *errors, gap.estimate, gap.low, gap.high, recall))
    return Table(
        "strengths",
        "Joint edits by strength",
        ("task", "layer", "strength", "exact MAE", "quadratic MAE", "difference", "low", "high",
         "exact recall %"),
        tuple(rows),
        "Prediction and execution use the same rounded endpoint tensors.",
    )  # fmt: skip


def _accuracy(records: Sequence[Row]) -> Table:
    seen = {(row["task"], row["pair"]): (row["answer"], row["baseline"]) for row in records}
    rows = []
    for task in dict.fromkeys(row["task"] for row in records):
        right = [
            (margin > 0) == (answer == "A")
            for (name, _), (answer, margin) in seen.items()
            if name == task
        ]
        rows.append((task, len(right), 100 * sum(right) / len(right)))
    return Table(
        "accuracy",
        "Baseline answers, as context",
        ("task", "pairs", "right %"),
        tuple(rows),
        "How often logit(A) − logit(B) has the right sign. Not what the study measures.",
    )


def _audit(settings: Any, records: Sequence[Row], audit: Sequence[Row]) -> Table:
    listed = {tuple(row[name] for name in _IDENTITY) for row in records}
    most = {
        name: max(row[name] for row in audit)
        for name in ("sparse_dense", "effective", "local", "control_drift", "row_drift")
    }
    expected = settings.pairs * sum(
        8 * (3 + sum(strength != 1 for strength in place.strengths)) for place in settings.places
    )
    rows = (
        ("executed interventions", len(records)),
        ("expected interventions", expected),
        ("duplicates", len(records) - len(listed)),
        ("setting–pairs", len(audit)),
        ("checks recorded", sum(row["checks"] for row in audit)),
        ("checks failed", sum(row["failed"] for row in audit)),
        ("sparse against dense, float64, largest", number(most["sparse_dense"])),
        ("effective matrices against sparse, float64, largest", number(most["effective"])),
        ("local prediction against executed float32, largest", number(most["local"])),
        ("control margin, batch against single, largest", number(most["control_drift"])),
        ("unedited row of an edited batch, largest move", number(most["row_drift"])),
    )
    return Table(
        "audit",
        "Numerical audit",
        ("figure", "value"),
        rows,
        "Local: contracted with the gradient, at the edited layer. Margins downstream are predictions.",
    )


def _interventions(records: Sequence[Row]) -> Table:
    rows = tuple(
        tuple(row[name] for name in _LISTED)
        for row in records
        if row["executed_interaction"] is not None
    )
    return Table("interventions", "Every joint replacement", _LISTED, rows, only_csv=True)
