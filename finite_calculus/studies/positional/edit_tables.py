"""Tables of executed shifts: errors and reductions, strata, answers, angles, certificates."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from finite_calculus.harness import Table, paired_interval
from finite_calculus.harness.metrics import correlation
from finite_calculus.studies.positional.rows import PositionalEdit
from finite_calculus.studies.positional.settings import BANDS
from finite_calculus.studies.positional.statistics import (
    Bootstrap,
    grouped,
    set_mean,
    set_sign_accuracy,
)

# Where a row holds each predictor; zero is not stored, and the second order is known of some rows only.
PREDICTED = {"finite": "predicted_finite", "Jacobian": "predicted_jacobian", "zero": None}
_SECOND = {"second": "predicted_second"}
LARGE = 0.1
Edits = Sequence[PositionalEdit]


def edit_tables(rows: Edits, bootstrap: Bootstrap) -> Iterator[Table]:
    """All tables of the shifts."""
    yield _prediction(rows, bootstrap)
    yield _signs(rows)
    yield _strata(rows, bootstrap)
    yield _layers(rows, bootstrap)
    yield _second(rows, bootstrap)
    yield _large(rows, bootstrap)
    yield _answers(rows, bootstrap)
    yield _angles(rows)
    yield _certificates(rows)


def predictions(rows: Edits, name: str) -> list[float]:
    """What a predictor says of each edit."""
    column = {**PREDICTED, **_SECOND}[name]
    return [0.0 if column is None else getattr(row, column) for row in rows]


def errors(rows: Edits, name: str) -> list[float]:
    """Absolute errors of a predictor."""
    return [abs(p - row.effect) for p, row in zip(predictions(rows, name), rows, strict=True)]


def _clusters(rows: Edits) -> list[str]:
    return [row.cluster for row in rows]


def _maes(rows: Edits) -> tuple[float, ...]:
    clusters = _clusters(rows)
    return tuple(set_mean(errors(rows, name), clusters) for name in PREDICTED)


def _reduction(rows: Edits, other: str, bootstrap: Bootstrap) -> tuple[float, float, float]:
    clusters = _clusters(rows)
    interval = bootstrap.reduction(errors(rows, "finite"), errors(rows, other), clusters)
    return interval.estimate, interval.low, interval.high


def _prediction(rows: Edits, bootstrap: Bootstrap) -> Table:
    lines = []
    for task, edits in grouped(rows, lambda row: row.task):
        for other in ("zero", "Jacobian"):
            clusters = np.asarray(_clusters(edits))
            own, others = (np.asarray(errors(edits, name)) for name in ("finite", other))
            gap = paired_interval(own, others, clusters, **bootstrap.options())
            lines.append(
                (task, *_maes(edits), other, *_reduction(edits, other, bootstrap),
                 gap.estimate, gap.low, gap.high)
            )  # fmt: skip
    columns = ("task", "finite MAE", "Jacobian MAE", "zero MAE", "against", "reduction %", "low",
               "high", "difference", "difference low", "difference high")  # fmt: skip
    note = (
        f"Executed change of the margin; the zero predictor's MAE is its mean size. Reductions and "
        f"differences of the finite predictor against another: {bootstrap.words()}."
    )
    return Table("prediction", "Prediction of executed shifts", columns, tuple(lines), note)


def _signs(rows: Edits) -> Table:
    lines = []
    for task, edits in grouped(rows, lambda row: row.task):
        executed = [row.effect for row in edits]
        for name in ("finite", "Jacobian"):
            predicted = predictions(edits, name)
            sign = set_sign_accuracy(predicted, executed, _clusters(edits))
            pearson = correlation(np.asarray(predicted), np.asarray(executed))
            lines.append((task, name, sign, pearson))
    note = "Signs where the executed change is not zero, prompt sets weighted equally; r over all edits."
    columns = ("task", "predictor", "sign accuracy %", "Pearson r")
    return Table("signs", "Signs and correlation", columns, tuple(lines), note)


def _strata(rows: Edits, bootstrap: Bootstrap) -> Table:
    lines = []
    for (task, band, shift), edits in grouped(
        rows, lambda row: (row.task, BANDS.index(row.band), row.shift)
    ):
        reduction = _reduction(edits, "Jacobian", bootstrap)
        lines.append((task, BANDS[band], shift, len(edits), *_maes(edits), *reduction))
    columns = ("task", "band", "shift", "edits", "finite MAE", "Jacobian MAE", "zero MAE",
               "below Jacobian %", "low", "high")  # fmt: skip
    title = "Errors by band and shift"
    return Table("strata", title, columns, tuple(lines), bootstrap.words() + ".")


def _layers(rows: Edits, bootstrap: Bootstrap) -> Table:
    lines = [
        (*key, *_maes(edits), *_reduction(edits, "zero", bootstrap))
        for key, edits in grouped(rows, lambda row: (row.task, row.layer))
    ]
    columns = ("task", "layer", "finite MAE", "Jacobian MAE", "zero MAE", "below zero %", "low",
               "high")  # fmt: skip
    note = f"Every band and shift of a layer. {bootstrap.words()}."
    return Table("layers", "Errors by layer", columns, tuple(lines), note)


def _second(rows: Edits, bootstrap: Bootstrap) -> Table:
    lines = []
    known = [row for row in rows if row.predicted_second is not None]
    for key, edits in grouped(known, lambda row: (row.task, row.layer)):
        clusters = _clusters(edits)
        errs = {name: errors(edits, name) for name in ("finite", "second", "zero")}
        maes = [set_mean(errs[name], clusters) for name in ("zero", "finite", "second")]
        below = bootstrap.reduction(errs["second"], errs["finite"], clusters)
        executed = [row.effect for row in edits]
        signs = [
            set_sign_accuracy(predictions(edits, name), executed, clusters)
            for name in ("finite", "second")
        ]
        lines.append(
            (*key, len(edits), *maes, below.estimate, below.low, below.high, *signs)
        )  # fmt: skip
    columns = ("task", "layer", "edits", "zero MAE", "finite MAE", "second MAE", "below finite %",
               "low", "high", "finite sign %", "second sign %")  # fmt: skip
    note = (
        "Original order of the first sets. Second adds to finite the second order downstream, along the "
        f"edit's own exact write: what it takes off is the frozen gradient's error. {bootstrap.words()}."
    )
    return Table("second-order", "The second order downstream", columns, tuple(lines), note)


def _large(rows: Edits, bootstrap: Bootstrap) -> Table:
    lines = []
    for task, edits in grouped(rows, lambda row: row.task):
        large = [row for row in edits if abs(row.effect) >= LARGE]
        if not large:
            lines.append((task, 0, 0, *[None] * 7))
            continue
        executed, clusters = [row.effect for row in large], _clusters(large)
        sign = set_sign_accuracy(predictions(large, "finite"), executed, clusters)
        reduction = _reduction(large, "zero", bootstrap)
        lines.append((task, len(large), len(set(clusters)), *_maes(large), *reduction, sign))
    columns = ("task", "edits", "sets", "finite MAE", "Jacobian MAE", "zero MAE", "below zero %",
               "low", "high", "sign accuracy %")  # fmt: skip
    note = f"Each prompt set weighs the same. {bootstrap.words()}."
    title = f"Edits with |Δm| ≥ {LARGE:g}"
    return Table("large", title, columns, tuple(lines), note)


def _answers(rows: Edits, bootstrap: Bootstrap) -> Table:
    lines = []
    for task, edits in grouped(rows, lambda row: row.task):
        clusters = _clusters(edits)
        before = _losses(edits, [0.0] * len(edits))
        after = _losses(edits, [row.effect for row in edits])
        change = paired_interval(after, before, np.asarray(clusters), **bootstrap.options())
        moved = _divergence(edits, [row.effect for row in edits], [0.0] * len(edits))
        figures: list[Any] = [set_mean(before, clusters), change.estimate, change.low, change.high]
        figures.append(set_mean(moved, clusters))
        for name in ("finite", "Jacobian"):
            predicted = predictions(edits, name)
            figures.append(set_mean(np.abs(_losses(edits, predicted) - after), clusters))
            kl = _divergence(edits, [row.effect for row in edits], predicted)
            figures.append(set_mean(kl, clusters))
        lines.append((task, *figures))
    columns = ("task", "NLL", "change of NLL", "low", "high", "KL executed to unedited",
               "finite NLL error", "KL executed to finite", "Jacobian NLL error",
               "KL executed to Jacobian")  # fmt: skip
    note = (
        "On the distribution conditional on the two labels A and B; NLL of the right one. A prediction's "
        f"distribution has the control's margin plus the predicted change. {bootstrap.words()}."
    )
    return Table("answers", "Answer NLL and KL", columns, tuple(lines), note)


def _losses(rows: Edits, changes: Sequence[float]) -> np.ndarray:
    """−log p(answer) with the control's margin plus a change."""
    towards = np.asarray([1.0 if row.answer == row.preferred else -1.0 for row in rows])
    margins = np.asarray([row.control for row in rows]) + np.asarray(changes)
    return np.logaddexp(0, -towards * margins)


def _divergence(rows: Edits, first: Sequence[float], second: Sequence[float]) -> np.ndarray:
    """KL of two label distributions, with the control's margin plus a change each."""
    control = np.asarray([row.control for row in rows])
    m, n = control + np.asarray(first), control + np.asarray(second)
    p = np.exp(-np.logaddexp(0, -m))
    q = np.exp(-np.logaddexp(0, m))
    above = np.logaddexp(0, -n) - np.logaddexp(0, -m)
    below = np.logaddexp(0, n) - np.logaddexp(0, m)
    return p * above + q * below


def _angles(rows: Edits) -> Table:
    lines = []
    for (layer, band, shift), edits in grouped(
        rows, lambda row: (row.layer, BANDS.index(row.band), row.shift)
    ):
        lines.append((layer, BANDS[band], shift, max(row.angle for row in edits)))
    columns = ("layer", "band", "shift", "angle")
    note = "Largest |δω| of the band in radians, from the model's own frequencies."
    return Table("angles", "Rotary angles", columns, tuple(lines), note)


def _certificates(rows: Edits) -> Table:
    lines = []
    for (task, band, shift), edits in grouped(
        rows, lambda row: (row.task, BANDS.index(row.band), row.shift)
    ):
        clusters = _clusters(edits)
        softmax = [_share(row.softmax_gap, row.softmax_bound) for row in edits]
        whole = [_share(row.jacobian_gap, row.jacobian_bound) for row in edits]
        rotary = [_share(row.rotary_part, row.jacobian_bound) for row in edits]
        signs = [float(abs(row.predicted_jacobian) > row.jacobian_bound) for row in edits]
        lines.append(
            (task, BANDS[band], shift, set_mean([row.kl for row in edits], clusters),
             set_mean([row.tv for row in edits], clusters), float(np.median(softmax)),
             float(np.median(whole)), float(np.median(rotary)), 100 * set_mean(signs, clusters))
        )  # fmt: skip
    columns = ("task", "band", "shift", "KL", "TV", "softmax tightness", "tightness",
               "rotary share", "certified signs %")  # fmt: skip
    note = (
        "KL(p‖p′) and TV are means over heads. Tightness is the error of the local score over its bound, "
        "median over edits: of the first-order score in the exact increments against the KL part, and of "
        "the positional Jacobian against the whole; the rotary share is the rotary part of the bound. Keys "
        "alone are edited, so TV enters no bound. Local throughout: nothing here bounds the margin."
    )
    return Table("certificates", "Certificates of the local score", columns, tuple(lines), note)


def _share(part: float, whole: float) -> float:
    return part / whole if whole > 0 else 0.0
