"""Spans of a prompt given as text and mapped to tokens by the tokenizer's offsets.

A donor must have the token length of the baseline and its ids outside the edited spans; otherwise the
message names the first place where they differ.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from torch import Tensor

from finite_calculus.models.capture import Capture
from finite_calculus.models.margins import need_tokenizer


def span(prompt: str, text: str, tokenizer: Any, *, occurrence: int = 0) -> tuple[int, ...]:
    """Token indices that cover the given occurrence of `text` in `prompt`.

    A token that only partly lies inside the text is included: tokens often start with the space
    before a word.
    """
    need_tokenizer("prompt", tokenizer)
    start = -1
    for _ in range(occurrence + 1):
        start = prompt.find(text, start + 1) if text else -1
        if start < 0:
            raise ValueError(
                f"`text` must occur in the prompt at least {occurrence + 1} times; {text!r} does "
                f"not. Spelling, case and spaces count."
            )
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"Spans need a fast tokenizer, which reports character offsets; got "
            f"{type(tokenizer).__name__}. Load it with use_fast=True, or pass token indices."
        )
    offsets = tokenizer(prompt, return_offsets_mapping=True)["offset_mapping"]
    stop = start + len(text)
    tokens = tuple(i for i, (a, b) in enumerate(offsets) if a < stop and b > start)
    if not tokens:
        raise ValueError(f"`text` {text!r} must cover a token of the prompt; it covers none.")
    return tokens


def check_places(name: str, tokens: Iterable[int], capture: Capture) -> None:
    """Require token indices of the captured prompt: what lies outside would be dropped unseen."""
    for token in tokens:
        if isinstance(token, bool) or token not in capture.positions:
            raise ValueError(
                f"`{name}` must name tokens in 0..{len(capture.ids) - 1}, those of the captured prompt; got "
                f"{token!r}. Negative indices are not wrapped."
            )


def check_donor(
    baseline: Tensor | Sequence[int],
    donor: Tensor | Sequence[int],
    spans: Iterable[int],
    *,
    tokenizer: Any = None,
) -> None:
    """Require equal token length and equal ids outside the spans; names the first difference."""
    base, other = [int(i) for i in baseline], [int(i) for i in donor]
    inside = set(spans)
    for i, (a, b) in enumerate(zip(base, other, strict=False)):
        if a != b and i not in inside:
            raise ValueError(
                f"`donor` must equal the baseline outside the spans; token {i} is "
                f"{_name(b, tokenizer)} instead of {_name(a, tokenizer)}. "
                f"Widen the spans, or align the prompts."
            )
    if len(base) != len(other):
        raise ValueError(
            f"`donor` must have the baseline's {len(base)} tokens; it has {len(other)}. "
            f"Choose words of equal token length."
        )


def _name(token: int, tokenizer: Any) -> str:
    return f"{token}" if tokenizer is None else f"{token} ({tokenizer.decode([token])!r})"
