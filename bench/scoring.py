"""Dense recomputation of the candidates of a search: what scoring is timed beside."""

import torch
from torch import Tensor

from finite_calculus.models import (
    Capture,
    Delete,
    Edit,
    KeyShift,
    LayerCapture,
    Odds,
    ScaleValues,
)
from finite_calculus.models.edits import third
from finite_calculus.models.layer import repeat_groups
from finite_calculus.rotary import rotate
from finite_calculus.search import TOKEN_KINDS, ScoreTable


class DenseLayer:
    """One layer recomputed densely: edited scores, softmax, values, gradient."""

    def __init__(self, layer: LayerCapture) -> None:
        self.layer = layer
        self.keys = repeat_groups(layer.keys.double(), layer.heads)
        self.values = repeat_groups(layer.values.double(), layer.heads)
        self.query = layer.query.double()
        self.scores = layer.scores()
        self.slope = layer.output_projection.double() @ layer.gradient_write.double()
        self.base = self._score(self.scores, self.values)

    def effect(self, kind: Edit, column: int) -> Tensor:
        """The effect of one candidate."""
        scores, values = self.scores.clone(), self.values
        if isinstance(kind, Odds):
            scores[:, column] += torch.tensor(kind.multiplier).log()
        elif isinstance(kind, Delete):
            scores[:, column] = -torch.inf
        elif isinstance(kind, ScaleValues):
            values = values.clone()
            values[:, column] *= kind.factor
        elif isinstance(kind, KeyShift):
            scores[:, column] = self._turned(kind, self.keys[:, column])
        return self._score(scores, values) - self.base

    def effects(self, kind: Edit) -> Tensor:
        """The effects of a kind at all keys: candidates × heads × keys."""
        count = self.scores.shape[1]
        scores = self.scores.expand(count, -1, -1).clone()
        every = torch.arange(count)
        if isinstance(kind, Odds):
            scores[every, :, every] += torch.tensor(kind.multiplier).log()
        elif isinstance(kind, Delete):
            scores[every, :, every] = -torch.inf
        elif isinstance(kind, KeyShift):
            turned = self._turned(kind, self.keys.movedim(1, 0))
            scores[every, :, every] = turned
        if isinstance(kind, ScaleValues):
            values = self.values.expand(count, -1, -1, -1).clone()
            values[every, :, every] *= kind.factor
            return self._score(scores, values) - self.base
        output = torch.softmax(scores, -1).movedim(0, 1) @ self.values
        return (output * self.slope.unsqueeze(1)).sum((0, 2)) - self.base

    def _turned(self, kind: KeyShift, keys: Tensor) -> Tensor:
        rotary = self.layer.rotary
        if rotary is None:
            raise ValueError("The bench needs a model with rotary positions.")
        band = third(rotary, kind.band) if isinstance(kind.band, str) else kind.band
        turned = rotate(rotary, keys, kind.shift, band=band).float().double()
        return (turned * self.query).sum(-1) * self.layer.scaling

    def _score(self, scores: Tensor, values: Tensor) -> Tensor:
        output = (torch.softmax(scores, -1).unsqueeze(-2) @ values).squeeze(-2)
        return (output * self.slope).sum((-2, -1))


def place(capture: Capture, table: ScoreTable, index: int) -> tuple[int, Edit, int]:
    """Number of the layer, kind and key column of one candidate."""
    row = table.row(index)
    (kind,) = [kind for kind in TOKEN_KINDS if kind.name == row.kind]
    numbers = [layer.layer for layer in capture.layers]
    return numbers.index(row.layer), kind, capture.layer(row.layer).column(row.tokens[0])
