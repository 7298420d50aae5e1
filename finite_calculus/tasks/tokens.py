"""A prompt as tokens: the user's message in the model's template, spans of its records, label tokens.

A prompt that does not fit is refused with the reason, never dropped; `where` opens the message and names it.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

LABELS = ("A", "B")
Span = tuple[int, int]


def wrapped(text: str, tokenizer: Any) -> str:
    """The user's message in the model's chat template; as it is where there is none."""
    if not tokenizer.chat_template:
        return text
    message = [{"role": "user", "content": text}]
    return tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)


def message_tokens(
    where: str,
    opening: str,
    records: Sequence[str],
    rest: str,
    tokenizer: Any,
    *,
    reply: str = "",
) -> tuple[tuple[int, ...], tuple[Span, ...]]:
    """Ids of opening, records and rest in the template, and the span (first, last + 1) of each record.

    `reply` is how the model's answer begins, after the template.
    """
    text = opening + "".join(records) + rest
    whole = wrapped(text, tokenizer)
    if whole.count(text) != 1:
        raise ValueError(
            f"{where}: the template must contain the message once and unchanged; it contains it "
            f"{whole.count(text)} times."
        )
    encoding = _encoded(whole + reply, tokenizer)
    place = whole.index(text) + len(opening)
    spans = []
    for record in records:
        spans.append(_span(where, encoding["offset_mapping"], place, place + len(record)))
        place += len(record)
    for before, after in pairwise(spans):
        if before[1] > after[0]:
            raise ValueError(
                f"{where}: spans must not share tokens; {before} and {after} do. This tokenizer joins "
                f"the end of a record with the beginning of the next."
            )
    return tuple(encoding["input_ids"]), tuple(spans)


def label_tokens(text: str, tokenizer: Any) -> tuple[int, int]:
    """The token of each label after a message; after plain text a space comes first."""
    lead = "" if tokenizer.chat_template else " "
    first, second = next_tokens(wrapped(text, tokenizer), [lead + x for x in LABELS], tokenizer)
    return first, second


def next_tokens(whole: str, words: Sequence[str], tokenizer: Any) -> tuple[int, ...]:
    """The token of each word where a prompt ends; refuses one that is not a single token there."""
    ids = list(_encoded(whole, tokenizer)["input_ids"])
    tokens = []
    for word in words:
        longer = list(_encoded(whole + word, tokenizer)["input_ids"])
        if longer[:-1] != ids:
            raise ValueError(
                f"The label {word!r} must be one token at the end of the prompt; it is not for this "
                f"tokenizer. The study needs a margin between two tokens."
            )
        tokens.append(int(longer[-1]))
    return tuple(tokens)


def require_fit(where: str, ids: Sequence[int], context: int) -> None:
    """Refuse a prompt that is longer than the model takes."""
    if len(ids) > context:
        raise ValueError(
            f"{where}: the prompt has {len(ids)} tokens and the model takes {context}. It does not fit: "
            f"choose another task or model."
        )


def _encoded(text: str, tokenizer: Any) -> Any:
    # A template writes its own special tokens; plain text gets those of the tokenizer.
    plain = not tokenizer.chat_template
    return tokenizer(text, add_special_tokens=plain, return_offsets_mapping=True)


def _span(where: str, offsets: Sequence[tuple[int, int]], start: int, stop: int) -> Span:
    """Tokens that overlap the characters start..stop; they are consecutive."""
    inside = [n for n, (a, b) in enumerate(offsets) if a < stop and b > start]
    if not inside:
        raise ValueError(f"{where}: a record must cover at least one token; one does not.")
    return inside[0], inside[-1] + 1
