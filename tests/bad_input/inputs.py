"""Arguments that are right, and tensors with one bad entry, for calls that hold one mistake each."""

from typing import Any

import torch
from torch import Tensor

import finite_calculus as fc
from tests.helpers.tensors import draw

NAN, INF = float("nan"), float("inf")
HEADS, KEYS, WIDTH, MODEL = 2, 5, 3, 4


def holding(entry: float, *shape: int) -> Tensor:
    """Random numbers with one bad entry, the last."""
    tensor = draw(*shape)
    tensor.view(-1)[-1] = entry
    return tensor


def true(*shape: int) -> Tensor:
    return torch.ones(*shape, dtype=torch.bool)


def false(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.bool)


def heads() -> fc.Readout:
    return fc.freeze(draw(HEADS, KEYS), draw(HEADS, KEYS, WIDTH))


def one_head() -> fc.Readout:
    return fc.freeze(draw(KEYS), draw(KEYS, WIDTH))


def whole_bank() -> tuple[Tensor, Tensor]:
    return draw(KEYS), draw(KEYS, WIDTH)


def no_mask() -> None:
    return None


def half_masked() -> fc.Readout:
    return fc.freeze(draw(KEYS), draw(KEYS, WIDTH), mask=torch.arange(KEYS) < 3)


def rotary() -> fc.Rotary:
    return fc.Rotary.from_base(1e4, 6)


def cache() -> fc.CachePair:
    scores, values = draw(HEADS, KEYS), draw(HEADS, KEYS, WIDTH)
    return fc.CachePair(scores, values, draw(HEADS, KEYS, seed=1), draw(HEADS, KEYS, WIDTH, seed=1))


def projection() -> Tensor:
    return draw(HEADS, WIDTH, MODEL)


def control(pairs: Any, requested: Any, **options: Any) -> fc.QueryControl:
    ratios = torch.tensor(requested, dtype=torch.float64)
    return fc.control_query(draw(MODEL), draw(KEYS, MODEL), torch.tensor(pairs), ratios, **options)


def control_one(query_input: Tensor, features: Tensor, pairs: Tensor) -> fc.QueryControl:
    return fc.control_query(query_input, features, pairs, draw(1))


def weights(**options: Any) -> fc.EffectiveWeights:
    return fc.effective_weights(draw(MODEL), draw(KEYS, MODEL), draw(KEYS, WIDTH), **options)


def low_scores() -> tuple[Tensor, Tensor, Tensor]:
    """Query input, features and values whose scores are −900, −901, −902."""
    features = torch.tensor([[-900.0], [-901.0], [-902.0]], dtype=torch.float64)
    return torch.ones(1, dtype=torch.float64), features, draw(3, WIDTH)
