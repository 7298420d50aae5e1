"""Figures of the search study, from every saved candidate."""

from collections.abc import Iterator, Sequence

import numpy as np

from finite_calculus.harness import Figure, Panel, Records, Series
from finite_calculus.studies.search.report import NAMES
from finite_calculus.studies.search.truth import Truth, truths

# The kinds of edits by their numbers in the records: `finite_calculus.models.kinds.TOKEN_KINDS` in words.
KINDS = (
    *("odds ×1/16", "odds ×1/4", "odds ×1/2", "odds ×2", "odds ×4", "odds ×16", "odds ×64"),
    *("delete", "value ×0"),
    *("fast +16", "fast −16", "middle +16", "middle −16", "slow +16", "slow −16"),
)
# As many as can be told apart in grey.
_RANKED = ("attention", "input_gradient", "first", "exact", "second", "corrected")
_COMPARED = ("first", "exact", "second", "corrected")
_TOP = 100
_SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 1.0)


def figures(records: Records) -> Iterator[Figure]:
    """Predicted against executed, errors by layer and kind, recall against cost."""
    prompts = list(truths(records))
    yield _executed(prompts)
    yield _errors(prompts)
    yield _recall(prompts)


def _executed(prompts: Sequence[Truth]) -> Figure:
    panels = tuple(
        Panel(
            "points",
            "predicted effect",
            "executed effect",
            (
                Series(
                    "one edit",
                    tuple(np.concatenate([p.columns[name][p.unknown] for p in prompts]).tolist()),
                    tuple(
                        np.concatenate([p.columns["executed"][p.unknown] for p in prompts]).tolist()
                    ),
                ),
            ),
            title=NAMES[name],
            diagonal=True,
        )
        for name in ("exact", "corrected")
    )
    return Figure(
        "predicted-executed",
        "Every candidate edit: predicted against executed",
        "One point for every edit of every token at every layer that the calibration did not execute. The "
        "exact write is contracted with the frozen gradient on the left; on the right, second order and "
        "executed anchors are added. On the dashed line the prediction is what happened.",
        panels,
    )


def _errors(prompts: Sequence[Truth]) -> Figure:
    layers = sorted({int(n) for p in prompts for n in p.seconds})
    by_layer = tuple(
        Series(
            NAMES[name],
            tuple(float(n) for n in layers),
            tuple(_mean_error(prompts, name, "layer", n) for n in layers),
        )
        for name in _COMPARED
    )
    by_kind = tuple(
        Series(
            NAMES[name],
            KINDS,
            tuple(_mean_error(prompts, name, "kind", n) for n in range(len(KINDS))),
        )
        for name in _COMPARED
    )
    return Figure(
        "error-by-layer-and-kind",
        "Error by layer and by kind of edit",
        "Mean absolute error of the predicted effect over all prompts, of candidates that the calibration "
        "did not execute.",
        (
            Panel("lines", "layer", "MAE of the effect", by_layer, title="by layer", y_scale="log"),
            Panel("points", "", "MAE of the effect", by_kind, title="by kind", y_scale="log"),
        ),
    )


def _mean_error(prompts: Sequence[Truth], predictor: str, column: str, value: int) -> float:
    """The pooled mean error of the candidates at a layer, or of a kind."""
    errors = [p.errors(predictor)[p.unknown & (p.columns[column] == value)] for p in prompts]
    return float(np.concatenate(errors).mean())


def _recall(prompts: Sequence[Truth]) -> Figure:
    series = []
    for name in _RANKED:
        spent = [
            float(np.mean([p.reach(name, _TOP, share)[1] / p.everything for p in prompts]))
            for share in _SHARES
        ]
        series.append(Series(NAMES[name], tuple(spent), _SHARES))
    panel = Panel(
        "lines",
        "time over that of executing everything",
        f"share found of the largest {_TOP}",
        tuple(series),
        x_scale="log",
    )
    return Figure(
        "recall-cost",
        "Recall against cost",
        "Candidates are executed in predicted order until a share of the largest executed effects is among "
        "them. Processor time, means over prompts, all set-up charged: capture, scores, curvature, and what "
        "the calibration executes.",
        (panel,),
    )
