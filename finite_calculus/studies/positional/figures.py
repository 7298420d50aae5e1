"""Figures of the positional study, from its records alone."""

from collections.abc import Iterator, Sequence

import numpy as np

from finite_calculus.harness import Figure, Panel, Records, Series
from finite_calculus.studies.positional.edit_tables import PREDICTED, errors, predictions
from finite_calculus.studies.positional.rows import BandInteraction, PositionalEdit, Reordering
from finite_calculus.studies.positional.settings import BANDS, PositionalSettings
from finite_calculus.studies.positional.statistics import Bootstrap, grouped, set_mean

Edits = Sequence[PositionalEdit]
_WORDS = {"finite": "finite response", "Jacobian": "positional Jacobian", "zero": "zero"}
_QUARTILES = (0.25, 0.5, 0.75)


def figures(settings: PositionalSettings, records: Records) -> Iterator[Figure]:
    """All figures, once a unit of the test is there."""
    edits = records.rows(PositionalEdit)
    if not edits:
        return
    bootstrap = Bootstrap.of(settings, part=True)
    yield _executed(edits)
    yield _angles(edits)
    yield _layers(edits)
    yield _tightness(edits)
    yield _interaction(records.rows(BandInteraction))
    yield _reordering(records.rows(Reordering), bootstrap)


def _executed(edits: Edits) -> Figure:
    panels = tuple(
        Panel(
            "points",
            "predicted change of the margin",
            "executed change",
            tuple(
                Series(task, tuple(predictions(own, name)), tuple(row.effect for row in own))
                for task, own in grouped(edits, lambda row: row.task)
            ),
            title=_WORDS[name],
            diagonal=True,
        )
        for name in ("finite", "Jacobian")
    )
    return Figure(
        "predicted-executed",
        "Shifted keys: predicted against executed",
        "One point for every executed shift of the demonstrations' keys. Left: the exact finite response of "
        "the write, contracted with the baseline gradient; right: the positional Jacobian in its place. On "
        "the dashed line the prediction is what happened.",
        panels,
    )


def _angles(edits: Edits) -> Figure:
    # All planes together turn the fastest as far as the fast band does.
    single = [row for row in edits if row.band != "all"]
    points = grouped(single, lambda row: row.angle)
    panel = Panel(
        "lines",
        "largest angle of the band (radians)",
        "MAE of the margin change",
        tuple(
            Series(
                _WORDS[name],
                tuple(angle for angle, _ in points),
                tuple(
                    set_mean(errors(own, name), [row.cluster for row in own]) for _, own in points
                ),
            )
            for name in PREDICTED
        ),
        x_scale="log",
        y_scale="log",
    )
    return Figure(
        "error-by-angle",
        "Error by the angle of the rotation",
        "Shifts in one band at a time; the angle is shift times the band's highest frequency, taken from "
        "the model. The line of the zero predictor is the mean size of the executed change.",
        (panel,),
    )


def _layers(edits: Edits) -> Figure:
    panels = []
    for layer, own in grouped(edits, lambda row: row.layer):
        kinds = grouped(own, lambda row: (BANDS.index(row.band), row.shift))
        places = tuple(f"{BANDS[band]} {shift}" for (band, shift), _ in kinds)
        series = tuple(
            Series(
                _WORDS[name],
                places,
                tuple(set_mean(errors(rows, name), [r.cluster for r in rows]) for _, rows in kinds),
            )
            for name in PREDICTED
        )
        panels.append(
            Panel("bars", "band and shift", "MAE of the margin change", series,
                  title=f"layer {layer}", y_scale="log")
        )  # fmt: skip
    return Figure(
        "error-by-layer-and-band",
        "Error by layer, band and shift",
        "Mean absolute error over all tasks, prompt sets weighted equally. Bars of the zero predictor are "
        "the mean size of the executed change.",
        tuple(panels),
    )


def _tightness(edits: Edits) -> Figure:
    kinds = grouped(edits, lambda row: (BANDS.index(row.band), row.shift))
    places = tuple(f"{BANDS[band]} {shift}" for (band, shift), _ in kinds)
    shares = {
        "softmax part": lambda row: (row.softmax_gap, row.softmax_bound),
        "with the rotary remainder": lambda row: (row.jacobian_gap, row.jacobian_bound),
    }
    series = tuple(
        _spread(name, places, [_ratios([of(row) for row in rows]) for _, rows in kinds])
        for name, of in shares.items()
    )
    panel = Panel("points", "band and shift", "bound over actual error", series, y_scale="log",
                  level=("as tight as can be", 1.0))  # fmt: skip
    return Figure(
        "tightness",
        "How tight the certificate of the local score is",
        "The certified bound over the error that it bounds: medians over edits, and quartiles. Nothing can "
        "lie below one. What happens downstream of the write is bounded by nothing here.",
        (panel,),
    )


def _ratios(pairs: Sequence[tuple[float, float]]) -> np.ndarray:
    return np.array([bound / gap for gap, bound in pairs if gap > 0])


def _interaction(rows: Sequence[BandInteraction]) -> Figure:
    panels = []
    for shift, alike in grouped(rows, lambda row: row.shift):
        series = []
        for task, own in grouped(alike, lambda row: row.task):
            layers = grouped(own, lambda row: row.layer)
            places = tuple(f"layer {layer}" for layer, _ in layers)
            shares = [
                np.array([100 * row.closed / row.joint for row in each]) for _, each in layers
            ]
            series.append(_spread(task, places, shares))
        panels.append(
            Panel("bars", "", "‖interaction‖ in % of the joint effect", tuple(series),
                  title=f"shift {shift}")
        )  # fmt: skip
    return Figure(
        "band-interaction",
        "Interaction of the fast and the middle band",
        "What the two bands do together beyond the sum of what each does alone, at the projected write: "
        "medians over variants of the prompts, and quartiles.",
        tuple(panels),
    )


def _reordering(rows: Sequence[Reordering], bootstrap: Bootstrap) -> Figure:
    panels = []
    for task, own in grouped(rows, lambda row: row.task):
        layers = grouped(own, lambda row: row.layer)
        series = []
        for part in ("phase", "context", "interaction"):
            shares = [
                bootstrap.ratio(
                    [getattr(row, part) for row in alike],
                    [row.total for row in alike],
                    [row.cluster for row in alike],
                )
                for _, alike in layers
            ]
            series.append(
                Series(
                    part,
                    tuple(f"layer {layer}" for layer, _ in layers),
                    tuple(each.estimate for each in shares),
                    tuple(each.low for each in shares),
                    tuple(each.high for each in shares),
                )
            )
        panels.append(Panel("bars", "", "share of the whole change", tuple(series), title=task))
    return Figure(
        "phase-context",
        "Reordered demonstrations: phase, context and their interaction",
        "Signed projections of the three parts on the whole change of the write; they sum to one. Phase is "
        "what the new positions alone do, context what upstream layers made of the new order. "
        f"{bootstrap.words()}.",
        tuple(panels),
    )


def _spread(name: str, places: tuple[str, ...], samples: Sequence[np.ndarray]) -> Series:
    """Medians and quartiles of a sample at each place."""
    low, middle, high = (
        tuple(float(np.quantile(sample, level)) for sample in samples) for level in _QUARTILES
    )
    return Series(name, places, middle, low, high)
