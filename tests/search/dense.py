"""Effects with the error bounds of their evaluation: of one edit, dense over all keys, and of a family."""

from dataclasses import replace

import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus.models import Capture, LayerCapture, edited_bank
from finite_calculus.models.edits import Edits
from finite_calculus.models.predict import Prediction, predict_bank
from finite_calculus.search import Family, prepare_search
from finite_calculus.search.block import effects_of


def dense_prediction(layer: LayerCapture, edits: Edits) -> Prediction:
    """The prediction of an edit with its tensors tracked from the captured ones on."""
    bank = edited_bank(layer, edits)
    return predict_bank(layer.in_float64(fc.track), bank.in_float64(fc.track))


def dense_effect(layer: LayerCapture, edits: Edits) -> Tensor:
    """⟨g, Δo⟩, tracked."""
    write = dense_prediction(layer, edits).write
    return torch.dot(write, fc.track(layer.gradient_write.double()))


def tracked_effects(
    capture: Capture, family: Family | None = None, *, dtype: torch.dtype = torch.float64
) -> dict[str, Tensor]:
    """The scores of a family and their parts, with the error bounds of their evaluation."""
    blocks = prepare_search(capture, family, dtype=dtype, wrap=fc.track).blocks
    per_block = [effects_of(block) for block in blocks]
    return {
        part: torch.cat([getattr(effects, part).flatten() for effects in per_block])
        for part in ("total", "key", "value", "interaction")
    }


def assert_near(one: Tensor, other: Tensor) -> None:
    """Two evaluations of one number differ by no more than the bounds of both."""
    gap = (fc.value_of(one).double() - fc.value_of(other).double()).abs()
    assert bool((gap <= fc.error_of(one) + fc.error_of(other)).all())


def one_layer(capture: Capture, layer: int) -> Capture:
    """The capture of one layer alone."""
    return replace(capture, layers=(capture.layer(layer),))


def sample(count: int, size: int, seed: int = 0) -> list[int]:
    """Distinct row numbers, drawn with a seed."""
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))[:count].tolist()
