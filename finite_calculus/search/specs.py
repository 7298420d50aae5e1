"""Edits, tokens and layers written as text, as the commands take them.

An edit is KIND:LAYER:TOKENS[:AMOUNT], as in odds:18:79:64, delete:3:5-8 or fast:7:12:-16. Tokens are
indices and ranges, 5,7-9.
"""

from finite_calculus.models import Capture, Edit
from finite_calculus.models.edits import Tokens, registered_edits
from finite_calculus.search.steering import Request

FORM = "KIND:LAYER:TOKENS[:AMOUNT]"


def parse_edit(text: str, capture: Capture) -> Edit:
    """The edit of a specification such as odds:18:79:64."""
    word, *fields = text.split(":")
    edit = next((edit for edit in registered_edits() if word in edit.words), None)
    if edit is None or len(fields) != 2 + edit.amount:
        counted, bare = _words(amount=True), _words(amount=False)
        raise ValueError(
            f"An edit must be {FORM} with KIND one of {', '.join(counted + bare)}; AMOUNT is left out "
            f"for {', '.join(bare)} alone; got {text!r}. For example odds:18:79:64."
        )
    layer = capture.layer(_number("LAYER", fields[0], text)).layer
    template = edit.from_text(word, _amount(fields[2], text) if edit.amount else None)
    return template.at(layer, parse_numbers(fields[1], limit=len(capture.ids)))


def edit_help() -> str:
    """How edits are written, in one sentence, from the edits that there are."""
    counted, bare = ", ".join(_words(amount=True)), ", ".join(_words(amount=False))
    return f"{FORM}, repeatable: {counted} with an amount, or {bare}."


def parse_numbers(text: str, *, limit: int) -> Tokens:
    """Numbers and ranges such as 5,7-9, each below `limit`."""
    numbers: list[int] = []
    for piece in text.split(","):
        first, dash, last = piece.strip().partition("-")
        start = _number("A number", first, text)
        numbers += range(start, _number("A number", last, text) + 1) if dash else [start]
    wrong = [number for number in numbers if not 0 <= number < limit]
    if wrong or not numbers:
        raise ValueError(
            f"Numbers must lie in 0..{limit - 1}; got {text!r}. Write them as in 5,7-9."
        )
    return tuple(dict.fromkeys(numbers))


def parse_request(text: str, *, limit: int) -> Request:
    """A requested ratio such as 12:30=4: token 12 is to be attended four times as much as token 30."""
    places, equals, ratio = text.partition("=")
    above, colon, below = places.partition(":")
    if not equals or not colon:
        raise ValueError(f"A ratio must be written ABOVE:BELOW=RATIO, as in 12:30=4; got {text!r}.")
    tokens = parse_numbers(f"{above},{below}", limit=limit)
    if len(tokens) != 2:
        raise ValueError(f"A ratio must compare two different tokens; got {text!r}.")
    return Request(*tokens, _amount(ratio, text))


def _words(*, amount: bool) -> list[str]:
    return [word for edit in registered_edits() if edit.amount == amount for word in edit.words]


def _number(name: str, text: str, whole: str) -> int:
    if not text.strip().isdigit():
        raise ValueError(f"{name} must be a whole number; got {text!r} in {whole!r}.")
    return int(text)


def _amount(text: str, whole: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ValueError(f"AMOUNT must be a number; got {text!r} in {whole!r}.") from None
