"""Single-layer edits of keys and values on a real model, executed by us and in two plain ways.

The model is SmolLM2-135M-Instruct, the prompt has 115 tokens, an edit replaces the keys and values of a
span of two to four tokens in layer 18 by a donor's, and what is wanted is the answer margin.
"""

import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from finite_calculus.checkpoints import load
from finite_calculus.models import Capture, Instrument, Replace
from finite_calculus.models.prefix import Prefix, prepare_prefix

MODEL, TOKENS, LAYER, ANSWER, VERSUS = "smollm2-135m-instruct", 115, 18, 330, 389


@dataclass(frozen=True, eq=False)
class Work:
    """An attached model, a prompt, a donor prompt and as many edits as are wanted."""

    instrument: Instrument

    @cached_property
    def ids(self) -> Tensor:
        draw = torch.Generator().manual_seed(0)
        return torch.randint(3, self.instrument.model.config.vocab_size, (TOKENS,), generator=draw)

    @cached_property
    def capture(self) -> Capture:
        return self._captured(self.ids)

    @cached_property
    def donor(self) -> Capture:
        return self._captured(torch.cat([self.ids[:-1].flip(0), self.ids[-1:]]))

    def edits(self, count: int) -> list[Replace]:
        """Spans of two to four tokens that wander over the prompt, at two strengths."""
        donor = self.donor.layer(LAYER)
        return [
            Replace(LAYER, tuple(range(s, s + 2 + n % 3)), donor, strength=0.5 + 0.5 * (n % 2))
            for n, s in ((n, 1 + n % (TOKENS - 6)) for n in range(count))
        ]

    def run(self, count: int) -> Tensor:
        """Our fast path, all edits in one batch."""
        result = self.instrument.execute(
            self.capture, self.edits(count), batch=count + 1, path="shared"
        )
        return result.margins

    def from_scratch(self, count: int) -> Tensor:
        """The same from the prompt's ids: prefix, capture with its backward pass, execution."""
        self.instrument.forget()
        capture = self._captured(self.ids)
        result = self.instrument.execute(capture, self.edits(count), batch=count + 1, path="shared")
        return result.margins

    def prefix(self) -> Prefix:
        """Keys and values of all tokens but the last: the first step of `from_scratch`."""
        return prepare_prefix(self.instrument.model, self.ids)

    def plain(self, edit: Replace) -> Tensor:
        """One full forward pass per edit, the last query's keys and values patched on the way."""
        with torch.no_grad(), self.instrument.installed(self.capture, edit):
            logits = self.instrument.model(input_ids=self.ids.unsqueeze(0), use_cache=False).logits
        return self.capture.margin.of(logits[0, -1])

    def copied(self, edits: list[Replace]) -> Tensor:
        """The prefix cache copied for every row and patched, one pass of the last token."""
        cache = copy.deepcopy(self._cache)
        cache.batch_repeat_interleave(len(edits))
        keys, values = cache.layers[LAYER].keys, cache.layers[LAYER].values
        for row, edit in enumerate(edits):
            where = list(edit.tokens)
            for here, there in ((keys, edit.donor.keys), (values, edit.donor.values)):
                step = there[:, where] - here[row, :, where]
                here[row, :, where] += edit.strength * step
        with torch.no_grad():
            last = self.ids[-1:].expand(len(edits), 1)
            logits = self.instrument.model(input_ids=last, past_key_values=cache).logits
        return self.capture.margin.of(logits[:, -1])

    def products(self, rows: int) -> list[Tensor]:
        """The matrix products of the layers from the edited one upwards, and nothing else.

        They read every weight once and do every multiplication at torch.mm's own rate: no execution
        of these edits through these layers can do without them.
        """
        blocks: Any = self.instrument.model.base_model.layers[LAYER:]
        weights = [p for block in blocks for p in block.parameters() if p.ndim == 2]
        inputs = {w.shape[1]: torch.ones(rows, w.shape[1]) for w in weights}
        return [torch.mm(inputs[w.shape[1]], w.T) for w in weights]

    def floor(self, rows: int) -> None:
        """What `from_scratch` cannot do without, each by plain torch and Hugging Face.

        The pass over the prefix, one forward pass of the last token with the gradient of the margin at
        the edited layer's write, and the matrix products of the rows.
        """
        self._gradient(self._read_prefix())
        self.products(rows)

    @cached_property
    def _cache(self) -> Any:
        return self._read_prefix()

    def _read_prefix(self) -> Any:
        with torch.no_grad():
            ids = self.ids[:-1].unsqueeze(0)
            return self.instrument.model(input_ids=ids, logits_to_keep=1).past_key_values

    def _gradient(self, cache: Any) -> Tensor:
        """The gradient at the write of the edited layer; the graph begins there."""
        writes = []

        def cut(_: Any, __: Any, write: Tensor) -> Tensor:
            writes.append(write.detach().requires_grad_())
            return writes[-1]

        projection: Any = self.instrument.model.base_model.layers[LAYER].self_attn.o_proj
        handle = projection.register_forward_hook(cut)
        try:
            last = self.ids[-1:].unsqueeze(0)
            logits = self.instrument.model(input_ids=last, past_key_values=cache).logits
        finally:
            handle.remove()
        return torch.autograd.grad(self.capture.margin.of(logits[0, -1]), writes)[0]

    def _captured(self, ids: Tensor) -> Capture:
        return self.instrument.capture(ids, answer=ANSWER, versus=VERSUS, layers=[LAYER])


def loaded() -> Any:
    """The model alone; fetched and converted on first use."""
    return load(MODEL)[0]
