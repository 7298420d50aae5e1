"""Requested attention ratios at one head: whether they can be met, and the executed solution.

Without the model: the solve is of the captured head. A ratio is written ABOVE:BELOW=RATIO, as in 12:30=4.
"""

import math
from collections.abc import Sequence
from typing import Any

import torch

from finite_calculus.control import control_query
from finite_calculus.effective import augment
from finite_calculus.explore.steps import Step
from finite_calculus.models import Capture, Instrument, head_features
from finite_calculus.search import Request, steer
from finite_calculus.search.specs import parse_request


def requests_of(capture: Capture, ratios: Sequence[str]) -> list[Request]:
    """Requests from their texts, at least one."""
    if not ratios:
        raise ValueError("`ratios` must hold at least one request, as in 12:30=4; got none.")
    return [parse_request(ratio, limit=len(capture.ids)) for ratio in ratios]


def solve(capture: Capture, layer: int, head: int, ratios: Sequence[str]) -> dict[str, Any]:
    """The smallest edit of the head's input for these ratios, what it achieves, and what there is now."""
    requests, place = requests_of(capture, ratios), capture.layer(layer)
    features = head_features(place, head)
    pairs = torch.tensor([[place.column(r.above), place.column(r.below)] for r in requests])
    wanted = torch.tensor([math.log(r.ratio) for r in requests], dtype=torch.float64)
    source, _ = place.query_map()
    control = control_query(augment(source.double()), features, pairs, wanted)
    probs = place.readout().log_probs[head]
    return {
        "feasible": control.feasible,
        "rank": control.rank,
        "now": (probs[pairs[:, 0]] - probs[pairs[:, 1]]).exp().tolist(),
        "achieved": control.achieved.exp().tolist(),
        "residual": control.residual.tolist(),
        "size": float(control.edit.norm() / source.double().norm()),
    }


def steered(
    instrument: Instrument, capture: Capture, layer: int, head: int, ratios: Sequence[str]
) -> Step:
    """The solution executed; ratios are read from the model's own attention weights."""
    result = steer(instrument, capture, layer, head, requests_of(capture, ratios))
    numbers = {
        "feasible": result.control.feasible,
        "norm": result.edit_norm,
        "before": list(result.before),
        "achieved": list(result.achieved),
        "executed": result.effect,
    }
    title = f"layer {layer}, head {head}: {', '.join(ratios)}"
    return Step(title, numbers, f"steered({layer}, {head}, {list(ratios)!r})", {})
