"""Edits as the page names them: the words of the commands, and `donorK`, `donorV` and `donorKV` besides.

An edit is KIND:LAYER[.HEADS]:TOKENS[:AMOUNT] as in `finite_calculus.search.specs`, a kind is KIND[:AMOUNT].
"""

import inspect
from collections.abc import Sequence
from dataclasses import replace

from finite_calculus.models import Capture, Edit, Replace, ScaleValues
from finite_calculus.models.edits import registered_edits
from finite_calculus.models.kinds import MULTIPLIERS, SHIFT
from finite_calculus.search.specs import parse_edit

# Which sides of a donor a word replaces: keys, values.
DONORS = {"donorK": (True, False), "donorV": (False, True), "donorKV": (True, True)}
# The kinds of Appendix H, which are coloured at once.
KINDS = (
    *(f"odds:{multiplier!r}" for multiplier in MULTIPLIERS),
    "delete",
    "value:0.0",
    *(f"{band}:{sign * SHIFT}" for band in ("fast", "middle", "slow") for sign in (1, -1)),
)
# What the page offers first where a word takes an amount.
_USUAL = {"odds": 64.0, "value": 0.0, "bits": 4, "donorK": 1.0, "donorV": 1.0, "donorKV": 1.0}


def words(donor: Capture | None) -> list[dict[str, object]]:
    """Every word of an edit: what it does, whether a number follows, and the number to begin with."""
    listed = [
        (word, edit.amount, (inspect.getdoc(edit) or "").split("\n")[0].replace("`", ""))
        for edit in registered_edits()
        for word in edit.words
    ]
    if donor is not None:
        for word, sides in DONORS.items():
            what = " and ".join(
                name for name, own in zip(("keys", "values"), sides, strict=True) if own
            )
            listed.append(
                (word, True, f"Move the {what} of tokens towards the donor's; 1 is all the way.")
            )
    return [
        {"word": word, "usual": _USUAL.get(word, SHIFT) if amount else None, "says": says}
        for word, amount, says in listed
    ]


def in_words(edit: Edit, tokens: Sequence[str]) -> str:
    """An edit at its place, as one would say it: odds ×64 at token 9 “: ”, layer 2."""
    low, high = min(edit.tokens), max(edit.tokens)
    text = "".join(tokens[low : high + 1])
    place = f"token {low}" if low == high else f"tokens {low} to {high}"
    heads = "".join(f", head {head}" for head in edit.heads or ())
    return f"{edit.name} at {place} “{text}”, layer {edit.layer}{heads}"


def edit_of(text: str, tokens: int, donor: Capture | None) -> Edit:
    """The edit of a text, for a prompt of so many tokens."""
    word, _, rest = text.partition(":")
    if word not in DONORS:
        return parse_edit(text, tokens)
    if donor is None:
        raise ValueError(f"{word} needs a donor; there is none. Capture a donor prompt first.")
    # The place and the number are written as those of `value`.
    keys, values = DONORS[word]
    return from_donor(parse_edit(f"value:{rest}", tokens), donor, keys=keys, values=values)


def from_donor(like: Edit, donor: Capture, *, keys: bool, values: bool) -> Edit:
    """Replacement by a donor, at the place of a `value` edit and as strong as its factor says."""
    if not isinstance(like, ScaleValues):
        raise TypeError(f"`like` must be an edit of `value`; got {type(like).__name__}.")
    return Replace(
        like.layer, like.tokens, donor, like.factor, keys=keys, values=values, heads=like.heads
    )


def kind_of(text: str, donor: Capture | None) -> Edit:
    """The edit without a place that KIND[:AMOUNT] names."""
    word, colon, amount = text.partition(":")
    return edit_of(f"{word}:0:0{colon}{amount}", 1, donor)


def code_of(text: str, donor: str) -> str:
    """Python that makes the edit of a text again; `donor` is the name of the donor's capture."""
    word, _, rest = text.partition(":")
    if word not in DONORS:
        return f"parse_edit({text!r}, tokens)"
    keys, values = DONORS[word]
    like = f"parse_edit({'value:' + rest!r}, tokens)"
    return f"from_donor({like}, {donor}, keys={keys}, values={values})"


def without_place(edit: Edit) -> Edit:
    """The same edit without its place, in all heads."""
    return replace(edit, layer=-1, tokens=(), heads=None)
