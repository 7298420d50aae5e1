"""What a person did, an entry for each thing that the model ran: numbers, and code to do it again."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Step:
    """One thing done: a title, the numbers that came of it, and the expression that makes them again.

    `detail` is what the page shows besides. The keys of `numbers` are those of the dictionary that `code`
    evaluates to in the exported script.
    """

    title: str
    numbers: Mapping[str, Any]
    code: str
    detail: Mapping[str, Any]

    def shown(self) -> dict[str, Any]:
        """The step as plain data for the page."""
        return {"title": self.title, "numbers": dict(self.numbers), "detail": dict(self.detail)}
