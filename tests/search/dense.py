"""The effect of one edit by `predict`, dense over all keys, with the error bound of its evaluation."""

from dataclasses import replace

import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus.models import Capture, LayerCapture, edited_bank
from finite_calculus.models.edits import Edits
from finite_calculus.models.predict import Prediction, predict_bank


def dense_prediction(layer: LayerCapture, edits: Edits) -> Prediction:
    """The prediction of an edit with its tensors tracked from the captured ones on."""
    bank = edited_bank(layer, edits)
    return predict_bank(layer.in_float64(fc.track), bank.in_float64(fc.track))


def dense_effect(layer: LayerCapture, edits: Edits) -> Tensor:
    """⟨g, Δo⟩, tracked."""
    write = dense_prediction(layer, edits).write
    return torch.dot(write, fc.track(layer.gradient_write.double()))


def one_layer(capture: Capture, layer: int) -> Capture:
    """The capture of one layer alone."""
    return replace(capture, layers=(capture.layer(layer),))


def sample(count: int, size: int, seed: int = 0) -> list[int]:
    """Distinct row numbers, drawn with a seed."""
    return torch.randperm(size, generator=torch.Generator().manual_seed(seed))[:count].tolist()
