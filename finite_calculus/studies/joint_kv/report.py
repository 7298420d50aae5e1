"""Tables of the joint study, from its records alone, in the order of the paper's."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from finite_calculus.harness import Records, Table
from finite_calculus.harness.checks import CheckRow, totals
from finite_calculus.harness.metrics import (
    correlation,
    mean_error,
    sign_accuracy,
    top_two_recall,
)
from finite_calculus.harness.tables import number
from finite_calculus.studies.joint_kv.results import (
    COMPARATORS,
    PREDICTORS,
    SECOND,
    Setting,
    results,
)
from finite_calculus.studies.joint_kv.rows import Intervention
from finite_calculus.studies.joint_kv.settings import JointKVSettings

_LISTED = (
    *("task", "layer", "pair", "span", "effect", "part_key", "part_value", "part_interaction"),
    *("executed_interaction", "interaction_residual"),
)


def report(settings: JointKVSettings, records: Records) -> Iterator[Table]:
    """All tables of the study."""
    rows = records.rows(Intervention)
    full = [setting for setting in results(rows, "joint") if setting.strength == 1]
    yield _coverage(full)
    yield _ranking(full)
    yield _paired(full, settings)
    yield _downstream(full, settings)
    yield _interaction(full)
    yield _single_kinds(rows)
    yield _strengths(rows, settings)
    yield _accuracy(rows)
    yield _audit(settings, records)
    yield _interventions(rows)


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


def _paired(full: list[Setting], settings: JointKVSettings) -> Table:
    rows = []
    for s in full:
        for name in COMPARATORS:
            interval = s.contrast(name, settings)
            other = mean_error(s.predicted(name), s.executed)
            reduction = None if other == 0 else -100 * interval.estimate / other
            state = "yes" if interval.favours_first else "no"
            rows.append(
                (
                    s.task,
                    s.layer,
                    name,
                    interval.estimate,
                    interval.low,
                    interval.high,
                    reduction,
                    state,
                )
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


def _downstream(full: list[Setting], settings: JointKVSettings) -> Table:
    """Local and downstream errors of exact joint, which differ by what the gradient cannot know."""
    rows = []
    for s in full:
        local = np.abs(s.columns["local_executed"] - s.columns["local_predicted"])
        size = mean_error(s.predicted("zero"), s.executed)
        exact, quadratic = (
            mean_error(s.predicted(name), s.executed) for name in ("exact joint", "quadratic")
        )
        second = mean_error(s.columns[SECOND], s.executed)
        gap = s.contrast("quadratic", settings)
        least = "exact" if gap.high < 0 else "quadratic" if gap.low > 0 else "undecided"
        rows.append(
            (s.task, s.layer, float(local.max()), exact, quadratic,
             None if np.isnan(second) else second, 100 * exact / size if size else None, least)
        )  # fmt: skip
    return Table(
        "downstream",
        "The local write against what follows",
        ("task", "layer", "local error, largest", "exact joint MAE", "quadratic MAE", "second MAE",
         "exact error % of effect", "errs less"),
        tuple(rows),
        "The local error is that of the exact write along the gradient, by float32 execution; what the "
        "exact predictor errs beyond it is the frozen gradient's. Where quadratic errs less, its local error "
        "happens to cancel part of that. Second adds the second order downstream along the edit's own write. "
        "The last column is decided by the paired interval of exact minus quadratic.",
    )  # fmt: skip


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


def _single_kinds(interventions: Sequence[Intervention]) -> Table:
    rows = [
        (s.task, s.layer, kind, mean_error(s.predicted("exact joint"), s.executed),
         mean_error(s.predicted("zero"), s.executed))
        for kind in ("key", "value")
        for s in results(interventions, kind)
    ]  # fmt: skip
    return Table(
        "single",
        "Key-only and value-only replacements",
        ("task", "layer", "kind", "exact MAE", "zero MAE"),
        tuple(rows),
        "The interaction vanishes for these, and exact joint and separate coincide.",
    )


def _strengths(interventions: Sequence[Intervention], settings: JointKVSettings) -> Table:
    every = list(results(interventions, "joint"))
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


def _accuracy(interventions: Sequence[Intervention]) -> Table:
    baselines = {(row.task, row.pair): (row.answer, row.baseline) for row in interventions}
    rows = []
    for task in dict.fromkeys(row.task for row in interventions):
        right = [
            (margin > 0) == (answer == "A")
            for (name, _), (answer, margin) in baselines.items()
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


def _audit(settings: JointKVSettings, records: Records) -> Table:
    rows = records.rows(Intervention)
    checks, failed = totals(records.rows(CheckRow))
    most = {
        "sparse against dense, float64": [r.predicted_joint - r.dense for r in rows],
        "effective matrices against sparse, float64": [
            r.predicted_joint - r.effective for r in rows
        ],
        "local prediction against executed float32": [
            r.local_executed - r.local_predicted for r in rows
        ],
        "control margin, batch against single": [r.control_drift for r in rows],
    }
    figures = [(f"{name}, largest", number(max(map(abs, apart)))) for name, apart in most.items()]
    moved = max(abs(r.row_drift) for r in rows)
    listed = (
        ("executed interventions", len(rows)),
        ("expected interventions", _expected(settings, records)),
        ("duplicates", len(rows) - len({r.place for r in rows})),
        ("setting–pairs", len({(r.task, r.layer, r.pair) for r in rows})),
        ("checks recorded", checks),
        ("checks failed", failed),
        *figures,
        ("unedited row of an edited batch, largest move", number(moved)),
    )
    return Table(
        "audit",
        "Numerical audit",
        ("figure", "value"),
        listed,
        "Local: contracted with the gradient, at the edited layer. Margins downstream are predictions.",
    )


def _expected(settings: JointKVSettings, records: Records) -> int:
    """Interventions that the plan asks for: every span of every pair, three kinds and the strengths."""
    edits = {
        task: sum(3 + len(place.strengths) - 1 for place in settings.at(task))
        for task in settings.tasks
    }
    pairs: Any = [pair for manifest in records.manifests.values() for pair in manifest["pairs"]]
    return sum(len(pair["spans"]) * edits[pair["task"]] for pair in pairs)


def _interventions(interventions: Sequence[Intervention]) -> Table:
    rows = tuple(
        tuple(getattr(row, name) for name in _LISTED)
        for row in interventions
        if row.executed_interaction is not None
    )
    return Table("interventions", "Every joint replacement", _LISTED, rows, only_csv=True)
