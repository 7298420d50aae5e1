"""Executed effects beside the noise floor of the precision, below which an effect is not resolved.

Every command and study that shows an executed effect asks here: in a table it stands in brackets where
rounding alone may have made it, and in JSON `resolved` stands beside it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Floor:
    """What rounding alone may make of the executed effects of one question, in the precision of its model."""

    value: float
    dtype: str

    def resolves(self, effect: float | None) -> bool | None:
        """Whether an effect is more than rounding may make; None without one."""
        return None if effect is None else abs(effect) >= self.value

    def cell(self, effect: float | None) -> str:
        """An executed effect for a table, in brackets where it is not resolved; empty without one."""
        return "" if effect is None else effect_cell(effect, self.resolves(effect))

    def entry(self, effect: float | None) -> dict[str, Any]:
        """An executed effect for JSON, and whether it is resolved."""
        return {"effect": effect, "resolved": self.resolves(effect)}

    def told(self, effects: Iterable[float | None]) -> str:
        """How many effects are not resolved, in a line; empty if all are."""
        verdicts = [self.resolves(effect) for effect in effects if effect is not None]
        below = verdicts.count(False)
        if not below:
            return ""
        return (
            f"{below} of {len(verdicts)} executed effects are not resolved: {self.dtype} alone may make "
            f"{self.value:.2g}"
        )


def effect_cell(effect: float, resolved: bool | None) -> str:
    """An effect for a table, in brackets where it is known not to be resolved."""
    return f"({effect:+.4f})" if resolved is False else f"{effect:+.4f}"
