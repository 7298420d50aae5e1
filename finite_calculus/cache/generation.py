"""Text generated with edits kept in place, beside the text without them."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import DynamicCache

from finite_calculus.models import Capture, Edit, Instrument
from finite_calculus.models.prefix import Prefix


@dataclass(frozen=True)
class Continuations:
    """Greedy continuations of the captured prompt, without and with the edits."""

    ordinary: str
    edited: str

    @property
    def same(self) -> bool:
        """Whether the edits changed no token."""
        return self.ordinary == self.edited


@dataclass(frozen=True, eq=False)
class Row:
    """One continuation of a prompt: the edits that stay installed, and a first token if it is forced."""

    edits: tuple[Edit, ...] = ()
    first: int | None = None


@dataclass(frozen=True, eq=False)
class Generated:
    """Greedy tokens of each row, and the logits that its first token was chosen from."""

    tokens: tuple[tuple[int, ...], ...]
    logits: Float[Tensor, "rows vocabulary"]


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


def generate_from(
    instrument: Instrument,
    capture: Capture,
    altered: Mapping[int, tuple[Tensor, Tensor]],
    *,
    tokens: int = 16,
) -> Continuations:
    """Continue the prompt greedily, from the cache as it is and with other keys and values in some layers.

    `altered` has keys and values (groups, tokens, width) for all tokens of the prompt; those of the last
    token are made by the model itself.
    """
    if tokens < 1:
        raise ValueError(f"`tokens` must be at least 1; got {tokens}.")
    prompt, texts = instrument.prompt(capture.ids), []
    for changed in ({}, altered):
        cache = _copied(instrument, prompt.prefix, 1)
        for number, stored in changed.items():
            layer = cache.layers[number]
            layer.keys, layer.values = (  # pyright: ignore[reportAttributeAccessIssue]
                part[None, :, :-1].to(prompt.prefix.device_of(number)).clone() for part in stored
            )
        with torch.no_grad():
            row = _greedy(instrument, cache, prompt.prefix.last, [Row()], tokens, lambda _: False)
        new, tokenizer = list(row.tokens[0]), instrument.tokenizer
        known = tokenizer is not None
        texts.append(tokenizer.decode(new, skip_special_tokens=True) if known else str(new))
    return Continuations(*texts)


def generate_rows(
    instrument: Instrument,
    ids: Tensor,
    rows: Sequence[Row],
    *,
    capture: Capture | None = None,
    tokens: int = 32,
    stop: Callable[[Sequence[int]], bool] = lambda _: False,
) -> Generated:
    """Continue one prompt greedily in several rows at once, each with its edits and its own cache.

    The prefix is computed once. A row ends with the model's end of text, where `stop` says so of its tokens,
    or after `tokens`. `capture` is that of the prompt, needed where a row has edits.
    """
    if tokens < 1:
        raise ValueError(f"`tokens` must be at least 1; got {tokens}.")
    if not rows:
        raise ValueError("`rows` must hold at least one continuation; got none.")
    edited = any(row.edits for row in rows)
    if edited and capture is None:
        raise ValueError("`capture` must be given where a row has edits; got None.")
    if capture is not None and not torch.equal(capture.ids, ids.cpu()):
        raise ValueError("`capture` must be of the prompt `ids`; it is of another one.")
    prompt = instrument.prompt(ids)
    cache = _copied(instrument, prompt.prefix, len(rows))
    installed = nullcontext()
    if capture is not None and edited:
        installed = instrument.installed_rows(capture, [row.edits for row in rows])
    with torch.no_grad(), installed:
        return _greedy(instrument, cache, prompt.prefix.last, rows, tokens, stop)


def _copied(instrument: Instrument, prefix: Prefix, rows: int) -> DynamicCache:
    """A cache of its own for every row, filled with the prefix."""
    cache = DynamicCache(config=instrument.model.config)
    for number, layer in enumerate(prefix.layers):
        if layer.is_sliding or layer.keys is None or layer.values is None:
            raise ValueError(
                f"Every layer must keep the whole prompt; layer {number} has a sliding window. Generate "
                f"with Instrument.installed and model.generate."
            )
        shape = (rows, -1, -1, -1)
        cache.update(layer.keys.expand(shape).clone(), layer.values.expand(shape).clone(), number)
    return cache


def _greedy(
    instrument: Instrument,
    cache: DynamicCache,
    last: Tensor,
    rows: Sequence[Row],
    tokens: int,
    stop: Callable[[Sequence[int]], bool],
) -> Generated:
    ends = _ends(instrument)
    texts: list[list[int]] = [[] for _ in rows]
    done = [False] * len(rows)
    following, firsts = last.expand(len(rows), 1), []
    for _ in range(tokens):
        output = instrument.model(input_ids=following, past_key_values=cache, use_cache=True)
        logits = output.logits[:, -1]
        chosen = logits.argmax(-1).tolist()
        if not firsts:
            firsts.append(logits.cpu())
            chosen = [
                token if row.first is None else row.first
                for token, row in zip(chosen, rows, strict=True)
            ]
        for number, token in enumerate(chosen):
            if not done[number]:
                texts[number].append(token)
                done[number] = token in ends or stop(texts[number])
        if all(done):
            break
        following = torch.tensor(chosen, device=last.device).unsqueeze(-1)
    return Generated(tuple(map(tuple, texts)), firsts[0])


def _ends(instrument: Instrument) -> frozenset[int]:
    """The tokens that end a text, as `model.generate` knows them."""
    config = instrument.model.generation_config
    end = None if config is None else config.eos_token_id
    return frozenset([] if end is None else [end] if isinstance(end, int) else end)


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
