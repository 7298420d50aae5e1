"""The edits of a batch as one padded block: what each row replaces in a readout that all rows share."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus.models.layer import LayerBank, LayerCapture
from finite_calculus.models.words import short_repr


@dataclass(frozen=True, eq=False)
class Patch:
    """Columns, keys, values, biases, deletions and query increments, row by row; row 0 has none.

    Rows are padded to the largest number of touched columns; padding is a removed column beyond all
    others, so that it has no attention. `query` is None where no row edits its query.
    """

    __repr__ = short_repr

    columns: Int[Tensor, "rows touched"]
    keys: Float[Tensor, "groups rows touched width"]
    values: Float[Tensor, "groups rows touched value_width"]
    bias: Float[Tensor, "groups rows heads touched"]
    removed: Bool[Tensor, "rows touched"]
    query: Float[Tensor, "groups rows heads width"] | None

    def into(
        self,
        scores: Float[Tensor, "groups _ heads columns"],
        touched: Float[Tensor, "groups rows heads touched"],
    ) -> Float[Tensor, "groups rows heads padded"]:
        """Scores of every row: the shared ones, with its own in the columns that it touches."""
        own = (touched + self.bias).masked_fill(self.removed.unsqueeze(-2), -torch.inf)
        wide = torch.nn.functional.pad(scores, (0, 1), value=-torch.inf)
        wide = wide.expand(-1, self.columns.shape[0], -1, -1)
        return wide.scatter(-1, self._index(own), own)

    def out_of(
        self, probs: Float[Tensor, "groups rows heads padded"]
    ) -> tuple[
        Float[Tensor, "groups rows heads padded"], Float[Tensor, "groups rows heads touched"]
    ]:
        """Probabilities on the shared values, and those on each row's own."""
        index = self._index(self.bias)
        return probs.scatter(-1, index, 0.0), probs.gather(-1, index)

    def _index(self, like: Tensor) -> Tensor:
        return self.columns.unsqueeze(-2).expand_as(like)


def stack_patches(layer: LayerCapture, banks: Sequence[LayerBank], device: torch.device) -> Patch:
    """The patch of a batch from banks of touched columns (`edited_columns`), after an unedited row.

    Its numbers are those that the model can hold; the increment of a query is float64, to be rounded once.
    """
    dtype = layer.precision.dtype
    sizes = torch.tensor([bank.keys.shape[1] for bank in banks])
    rows, most = len(banks) + 1, int(sizes.max())
    row = torch.repeat_interleave(torch.arange(1, rows), sizes)
    place = torch.arange(len(row)) - torch.repeat_interleave(sizes.cumsum(0) - sizes, sizes)
    groups = layer.keys.shape[0]

    def padded(parts: list[Tensor], fill: int = 0) -> Tensor:
        """Parts of shape (..., columns, width) side by side, as (..., rows, most, width)."""
        joined = torch.cat(parts, -2)
        whole = joined.new_full((*joined.shape[:-2], rows, most, joined.shape[-1]), fill)
        whole[..., row, place, :] = joined
        return whole.to(device)

    bias = padded([bank.bias.unsqueeze(-1) for bank in banks]).squeeze(-1)
    columns = [_columns(bank).unsqueeze(-1) for bank in banks]
    query = None
    if any(bank.query is not layer.query for bank in banks):
        own = layer.query.double()
        moved = torch.stack([own, *(bank.query.double() for bank in banks)]) - own
        query = moved.to(device).unflatten(1, (groups, -1)).movedim(1, 0)
    return Patch(
        columns=padded(columns, layer.keys.shape[1]).squeeze(-1),
        keys=padded([bank.keys for bank in banks]).to(dtype),
        values=padded([bank.values for bank in banks]).to(dtype),
        bias=bias.unflatten(0, (groups, -1)).movedim(1, 2).to(dtype),
        removed=padded([bank.removed.unsqueeze(-1) for bank in banks], 1).squeeze(-1),
        query=query,
    )


def _columns(bank: LayerBank) -> Tensor:
    if bank.columns is None:
        return torch.arange(bank.keys.shape[1])
    return bank.columns
