"""Text generated with edits kept in place, beside the text without them."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from finite_calculus.models import Capture, Edit, Instrument


@dataclass(frozen=True)
class Continuations:
    """Greedy continuations of the captured prompt, without and with the edits."""

    ordinary: str
    edited: str

    @property
    def same(self) -> bool:
        """Whether the edits changed no token."""
        return self.ordinary == self.edited


def generate_with(
    instrument: Instrument, capture: Capture, edits: Sequence[Edit], *, tokens: int = 16
) -> Continuations:
    """Continue the prompt greedily by at most `tokens` tokens, without and with the edits installed."""
    if tokens < 1:
        raise ValueError(f"`tokens` must be at least 1; got {tokens}.")
    config = instrument.model.config.get_text_config(decoder=True)
    context = getattr(config, "max_position_embeddings", None)
    if context is not None and len(capture.ids) + tokens > context:
        raise ValueError(
            f"`tokens` must fit into the model's context of {context} after the prompt's "
            f"{len(capture.ids)}; got {tokens}."
        )
    ordinary = _continue(instrument, capture, tokens)
    if not edits:
        return Continuations(ordinary, ordinary)
    with instrument.installed(capture, list(edits)):
        edited = _continue(instrument, capture, tokens)
    return Continuations(ordinary, edited)


def _continue(instrument: Instrument, capture: Capture, tokens: int) -> str:
    model, tokenizer = instrument.model, instrument.tokenizer
    ids = capture.ids.unsqueeze(0).to(next(model.parameters()).device)
    with torch.no_grad():
        sequences = model.generate(  # pyright: ignore[reportCallIssue]
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=tokens,
            do_sample=False,
            pad_token_id=0 if tokenizer is None else tokenizer.pad_token_id,
        )
    new = sequences[0, ids.shape[1] :].tolist()
    return str(new) if tokenizer is None else tokenizer.decode(new, skip_special_tokens=True)
