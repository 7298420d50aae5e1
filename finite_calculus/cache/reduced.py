"""A cache layer that has lost entries: fewer keys and values in memory, every position as it was.

Keys keep the rotation of the position at which they were written. The layer counts all tokens that it has
seen, so that a model places new ones where it would have without us, and remembers to which token each stored
key belongs, so that a mask over all tokens can be read at the stored ones. Rows lose equally many entries;
which ones may differ by row and by group.
"""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from transformers.cache_utils import DynamicLayer

from finite_calculus.models.session import AttentionCall


class ReducedLayer(DynamicLayer):
    """Keys and values of some of the tokens seen, with the last queries that read them.

    `tokens` (rows, groups, keys) are the tokens of the stored keys, `seen` counts all, `recent` are the last
    queries (rows, heads, queries, width) and `padding` marks tokens that are none, row by row.
    """

    is_croppable = False

    def __init__(
        self, keys: Tensor, values: Tensor, recent: Tensor, padding: Bool[Tensor, "rows tokens"]
    ) -> None:
        super().__init__()
        self.lazy_initialization(keys, values)
        self.keys, self.values = keys, values
        rows, groups, count = keys.shape[:3]
        self.seen, self.recent, self.padding = count, recent, padding
        self.tokens = torch.arange(count, device=keys.device).expand(rows, groups, -1)
        # Tokens written since the last plan.
        self.since = 0

    @property
    def bytes(self) -> int:
        """Memory of the stored keys and values and of what says which tokens they belong to."""
        kept = (self.keys, self.values, self.tokens)
        return sum(x.numel() * x.element_size() for x in kept if x is not None)

    def keep(self, columns: Int[Tensor, "rows groups kept"]) -> None:
        """Keep these columns alone, in the order of their tokens; the rest is freed."""
        columns = columns.sort(-1).values
        self.keys, self.values = (
            stored.gather(2, columns.unsqueeze(-1).expand(-1, -1, -1, stored.shape[-1]))
            for stored in (self.keys, self.values)
            if stored is not None
        )
        self.tokens = self.tokens.gather(2, columns)

    def watch(self, query: Float[Tensor, "rows heads some width"], most: int) -> None:
        """Add queries to the last ones, of which at most so many are kept."""
        self.recent = torch.cat([self.recent, query], 2)[:, :, -most:].detach()

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Append new tokens."""
        count = key_states.shape[2]
        new = torch.arange(self.seen, self.seen + count, device=key_states.device)
        self.tokens = torch.cat([self.tokens, new.expand(*self.tokens.shape[:2], -1)], -1)
        self.padding = torch.nn.functional.pad(self.padding, (0, count))
        self.seen += count
        self.since += count
        return super().update(key_states, value_states)

    def mask_of(self, call: AttentionCall) -> Tensor | None:
        """The mask of a call over the stored keys, from the one that the model made over all tokens."""
        rows, heads, queries, _ = call.query.shape
        groups, stored = self.tokens.shape[1:]
        if call.mask is None:
            if queries == 1:
                return None
            last = torch.arange(self.seen - queries, self.seen, device=call.query.device)
            causal = self.tokens.unsqueeze(2) <= last[:, None]
            mask = torch.zeros(causal.shape, dtype=call.query.dtype, device=causal.device)
            mask = mask.masked_fill(~causal, torch.finfo(mask.dtype).min)
        else:
            index = self.tokens.unsqueeze(2).expand(-1, -1, queries, -1)
            whole = call.mask.expand(rows, -1, -1, -1)
            if whole.shape[1] == heads:
                return whole.gather(-1, index.repeat_interleave(heads // groups, 1))
            mask = whole.expand(-1, groups, -1, -1).gather(-1, index)
        return mask.repeat_interleave(heads // groups, 1).reshape(rows, heads, queries, stored)

    def get_seq_length(self) -> int:
        """All tokens seen, not those stored."""
        return self.seen

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        """Masks are made over all tokens seen."""
        return self.seen + query_length, 0

    def reorder_cache(self, beam_idx: Tensor) -> None:
        """The rows of other beams."""
        self.batch_select_indices(beam_idx)

    def batch_repeat_interleave(self, repeats: int) -> None:
        """Each row several times."""
        rows = torch.arange(self.tokens.shape[0]).repeat_interleave(repeats)
        self.batch_select_indices(rows)

    def batch_select_indices(self, indices: Tensor) -> None:
        """Some of the rows."""
        for name in ("keys", "values", "tokens", "recent", "padding"):
            tensor = getattr(self, name)
            setattr(self, name, tensor.index_select(0, indices.to(tensor.device)))

    def crop(self, tokens_to_remove: int) -> None:
        """Refused: what was evicted before the crop cannot come back."""
        raise ValueError(
            "A reduced cache must not be cropped: entries that were evicted cannot come back. "
            "Generate without assistance, or outside the block."
        )
