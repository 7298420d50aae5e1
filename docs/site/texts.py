"""Plain text, code and HTML as MyST Markdown that shows them as they are."""

import re

_CODE = re.compile(r"(`[^`]+`)")
_SPECIAL = re.compile(r"([\\*_|<>\[\]{}$#~])")


def words(text: str) -> str:
    """Text in which only backticks mean anything."""
    parts = _CODE.split(text)
    parts[::2] = (_SPECIAL.sub(r"\\\1", part) for part in parts[::2])
    return "".join(parts)


def code(text: str) -> str:
    """A text as code."""
    return f"`{text}`"


def raw(html: str) -> str:
    """HTML of our own making, as it is."""
    # The fence must be longer than any in the text, and there is none in ours.
    return f"```{{raw}} html\n{html}\n```\n"
