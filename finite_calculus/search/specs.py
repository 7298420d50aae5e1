"""Edits, tokens and layers written as text, as the commands take them.

An edit is KIND:LAYER[.HEADS]:TOKENS[:AMOUNT], as in odds:18:79:64, delete:3:5-8, fast:7:12:-16 or
value:20.0,4:"of France":0. Tokens and heads are indices and ranges, 5,7-9; tokens may be a text of the prompt
in double quotes.
"""

import re
from collections.abc import Callable
from dataclasses import replace

from finite_calculus.models import Edit
from finite_calculus.models.edits import Tokens, registered_edits
from finite_calculus.search.steering import Request

FORM = "KIND:LAYER[.HEADS]:TOKENS[:AMOUNT]"
# More query heads than any model has.
_HEADS = 1 << 20
_DIGITS = 18
_EDIT = re.compile(r'([^:]+):([^:]+):("[^"]*"|[^":]*)(?::([^:]*))?')


def parse_edit(text: str, tokens: int, *, find: Callable[[str], Tokens] | None = None) -> Edit:
    """The edit of a specification such as odds:18:79:64, of a prompt of so many tokens.

    `find` gives the tokens of a text in quotes.
    """
    parts = _EDIT.fullmatch(text)
    word, place, where, amount = parts.groups() if parts else (None, "", "", None)
    edit = next((edit for edit in registered_edits() if word in edit.words), None)
    if word is None or edit is None or (amount is not None) != edit.amount:
        counted, bare = _words(amount=True), _words(amount=False)
        raise ValueError(
            f"An edit must be {FORM} with KIND one of {', '.join(counted + bare)}; AMOUNT is left out "
            f"for {', '.join(bare)} alone; got {shortened(text)!r}. For example odds:18:79:64."
        )
    number, dot, heads = place.partition(".")
    layer = _number("LAYER", number, text)
    template = edit.from_text(word, None if amount is None else _amount(amount, text))
    if dot:
        template = replace(template, heads=_parse(heads, _HEADS, text))
    return template.at(layer, _tokens(where, tokens, find, text))


def _tokens(text: str, limit: int, find: Callable[[str], Tokens] | None, whole: str) -> Tokens:
    """Token indices, or those of a text in quotes."""
    if not text.startswith('"'):
        return parse_numbers(text, limit=limit, name=f"TOKENS of {shortened(whole)!r}")
    if find is None:
        raise ValueError(
            f"TOKENS as text need the prompt as text; got {shortened(text)}. Pass indices."
        )
    return find(text[1:-1])


def edit_help() -> str:
    """How edits are written, in one sentence, from the edits that there are."""
    counted, bare = ", ".join(_words(amount=True)), ", ".join(_words(amount=False))
    return f'{FORM}, repeatable: {counted} with an amount, or {bare}; TOKENS may be "text".'


def parse_numbers(text: str, *, limit: int, name: str = "Numbers") -> Tokens:
    """Numbers and ranges such as 5,7-9, each below `limit`; `name` says what they are."""
    numbers = _parse(text, limit, text)
    if not numbers or max(numbers) >= limit:
        raise ValueError(
            f"{name} must lie in 0..{limit - 1}; got {shortened(text)!r}. Write them as in 5,7-9."
        )
    return numbers


def _parse(text: str, limit: int, whole: str) -> tuple[int, ...]:
    """Numbers and ranges, each once; of a range only what lies below `limit`, and then `limit` itself."""
    numbers: list[int] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        start = _number("A number", first, whole)
        stop = _number("A number", last, whole) if dash else start
        # A range of a billion tokens is refused without being written out.
        numbers += range(min(start, limit), min(stop, limit) + 1)
    return tuple(dict.fromkeys(numbers))


def shortened(text: str, most: int = 80) -> str:
    """A text as an error shows it: its beginning, where it is long."""
    return text if len(text) <= most else f"{text[:most]}… ({len(text)} characters)"


def parse_request(text: str, *, limit: int) -> Request:
    """A requested ratio such as 12:30=4: token 12 is to be attended four times as much as token 30."""
    places, equals, ratio = text.partition("=")
    above, colon, below = places.partition(":")
    if not equals or not colon:
        raise ValueError(
            f"A ratio must be written ABOVE:BELOW=RATIO, as in 12:30=4; got {shortened(text)!r}."
        )
    tokens = parse_numbers(f"{above},{below}", limit=limit)
    if len(tokens) != 2:
        raise ValueError(f"A ratio must compare two different tokens; got {shortened(text)!r}.")
    return Request(*tokens, _amount(ratio, text))


def _words(*, amount: bool) -> list[str]:
    return [word for edit in registered_edits() if edit.amount == amount for word in edit.words]


def _number(name: str, text: str, whole: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= _DIGITS):
        raise ValueError(
            f"{name} must be a whole number of at most {_DIGITS} digits; got {shortened(text)!r} in "
            f"{shortened(whole)!r}."
        )
    return int(digits)


def _amount(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(
            f"AMOUNT must be a number; got {shortened(text)!r} in {shortened(whole)!r}."
        ) from None
