"""Texts of prompts and records are data: what could hide or reorder a page is shown by its code point."""

import re

# C0 and C1 controls but tab and newline, line and paragraph separators, directional marks, and halves of
# surrogate pairs.
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff\ud800-\udfff]"
)


def visible(text: str) -> str:
    """The text with every unseen character as ⟨U+202E⟩; markup is left to the template's escaping."""
    return _UNSEEN.sub(lambda match: f"⟨U+{ord(match[0]):04X}⟩", text)
