"""Docstrings as reStructuredText: plain text, in which only `code` and indented blocks mean anything."""

import re

_CODE = re.compile(r"`([^`]+)`")
_SPECIAL = re.compile(r"([\\*_|:<>`])")


def as_rst(text: str) -> list[str]:
    """Lines that show a text as it stands: backticks as code, what is indented as it is written."""
    lines: list[str] = []
    for block, indented in _blocks(text):
        if indented:
            lines += ["::", "", *(f"    {line}".rstrip() for line in block), ""]
        else:
            lines += [*_inline("\n".join(block)).split("\n"), ""]
    return lines


def _blocks(text: str) -> list[tuple[list[str], bool]]:
    """Paragraphs and lists, and what is indented between them; an item of a list keeps its further lines."""
    blocks: list[tuple[list[str], bool]] = []
    fresh = True
    for line in text.expandtabs().split("\n"):
        if not line.strip():
            fresh = True
            continue
        indented = line.startswith(" ") and not (blocks and not fresh and _is_item(blocks[-1][0]))
        if fresh or indented != blocks[-1][1]:
            blocks.append(([], indented))
        blocks[-1][0].append(line)
        fresh = False
    return blocks


def _is_item(block: list[str]) -> bool:
    return block[0].startswith("- ")


def _inline(text: str) -> str:
    parts = _CODE.split(text)
    parts[::2] = (_SPECIAL.sub(r"\\\1", part) for part in parts[::2])
    # Code may touch a letter or a bracket, which the empty `\ ` allows.
    parts[1::2] = (rf"\ ``{part}``\ " for part in parts[1::2])
    return "".join(parts)
