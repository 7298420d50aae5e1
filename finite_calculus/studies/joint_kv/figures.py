"""Figures of the joint study, from its records alone."""

from collections.abc import Iterator

from finite_calculus.harness import Figure, Panel, Records, Series
from finite_calculus.harness.metrics import mean_error
from finite_calculus.studies.joint_kv.results import Setting, results
from finite_calculus.studies.joint_kv.rows import Intervention

# The best first, so that it has the same colour in every figure.
_SHOWN = ("exact joint", "quadratic", "separate", "first order", "zero")
_MOST_KINDS = 6


def figures(records: Records) -> Iterator[Figure]:
    """All figures of the study."""
    every = list(results(records.rows(Intervention), "joint"))
    full = [setting for setting in every if setting.strength == 1]
    yield _summary(full[0])
    yield _errors(full)
    yield _relative(full)
    yield _interaction(full)
    if any(setting.strength != 1 for setting in every):
        yield _strengths(every)


def _summary(first: Setting) -> Figure:
    executed = first.columns["executed_interaction"]
    parts = {"C_KV, exact": "part_interaction", "C₂, quadratic": "part_quadratic"}
    predictors = Series(
        "MAE", _SHOWN, tuple(mean_error(first.predicted(name), first.executed) for name in _SHOWN)
    )
    interactions = Series(
        "MAE",
        tuple(parts),
        tuple(mean_error(first.columns[column], executed) for column in parts.values()),
    )
    level = ("mean size of the executed interaction", float(abs(executed).mean()))
    place = f"{first.task}, layer {first.layer}"
    return Figure(
        "summary",
        f"One setting at a glance: {place}",
        "Left: mean absolute error of the predicted change of the margin when both keys and values of a "
        "span are replaced in full. Right: error of predicting the executed four-cell interaction with the "
        "exact interaction C_KV and with its quadratic term C₂.",
        (
            Panel(
                "bars",
                "",
                "MAE of the margin change",
                (predictors,),
                title=f"{place}: the margin",
                y_scale="log",
            ),
            Panel(
                "bars",
                "",
                "MAE of the interaction",
                (interactions,),
                title=f"{place}: the interaction",
                y_scale="log",
                level=level,
            ),
        ),
    )


def _errors(full: list[Setting]) -> Figure:
    places = tuple(f"{s.task} {s.layer}" for s in full)
    series = tuple(
        Series(name, places, tuple(mean_error(s.predicted(name), s.executed) for s in full))
        for name in _SHOWN
    )
    panel = Panel("bars", "task and layer", "MAE of the margin change", series, y_scale="log")
    return Figure(
        "errors",
        "Error of the predicted margin change, by predictor",
        "Mean absolute difference between predicted and executed change of the margin at full replacement. "
        "The local write is exact for exact joint; what is left of its error is the frozen gradient's. "
        "Bars of the zero predictor are the mean size of the executed change.",
        (panel,),
    )


def _relative(full: list[Setting]) -> Figure:
    places = tuple(f"{s.task} {s.layer}" for s in full)
    separate = [mean_error(s.predicted("separate"), s.executed) for s in full]
    series = tuple(
        Series(
            name,
            places,
            tuple(
                mean_error(s.predicted(name), s.executed) / base
                for s, base in zip(full, separate, strict=True)
            ),
        )
        for name in _SHOWN
        if name != "separate"
    )
    level = ("separate attribution", 1.0)
    panel = Panel(
        "points", "task and layer", "MAE over that of separate", series, y_scale="log", level=level
    )
    return Figure(
        "relative",
        "Error relative to separate attribution",
        "Each predictor's mean absolute error divided by that of adding separate key and value "
        "attributions in the same setting; below one is better.",
        (panel,),
    )


def _interaction(full: list[Setting]) -> Figure:
    # Six kinds of points can be told apart; of more settings those of a task are drawn as one.
    together = len(full) > _MOST_KINDS
    points: dict[str, list[tuple[float, float]]] = {}
    for s in full:
        pairs = zip(
            s.columns["part_interaction"].ravel().tolist(),
            s.columns["executed_interaction"].ravel().tolist(),
            strict=True,
        )
        name = f"{s.task}, every layer" if together else f"{s.task} {s.layer}"
        points.setdefault(name, []).extend(pairs)
    series = tuple(Series(name, *zip(*pairs, strict=True)) for name, pairs in points.items())
    panel = Panel("points", "predicted interaction", "executed interaction", series, diagonal=True)
    return Figure(
        "interaction",
        "The interaction of key and value edits, predicted and executed",
        "One point for every span: the exact local interaction contracted with the baseline gradient "
        "against the executed effect of both edits minus the effects of each alone.",
        (panel,),
    )


def _strengths(every: list[Setting]) -> Figure:
    swept = {(s.task, s.layer) for s in every if s.strength != 1}
    panels = []
    for task, layer in sorted(swept):
        listed = sorted(
            (s for s in every if (s.task, s.layer) == (task, layer)), key=lambda s: s.strength
        )
        series = tuple(
            Series(
                name,
                tuple(s.strength for s in listed),
                tuple(mean_error(s.predicted(name), s.executed) for s in listed),
            )
            for name in ("exact joint", "quadratic")
        )
        panels.append(
            Panel("lines", "strength of the edit", "MAE of the margin change", series,
                  title=f"{task}, layer {layer}", y_scale="log")
        )  # fmt: skip
    return Figure(
        "strengths",
        "Error by strength of the edit",
        "Joint edits of part of the way from baseline to donor; the same rounded tensors are predicted and "
        "executed.",
        tuple(panels),
    )
