"""Figures as plain numbers: a study says what is drawn, made from its records; drawing happens elsewhere.

A figure has panels, a panel has series, a series has points; nothing here knows of colours or of a library.
"""

from dataclasses import dataclass, field
from typing import Literal

Place = str | float
Kind = Literal["lines", "bars", "points"]
Scale = Literal["linear", "log"]


@dataclass(frozen=True)
class Series:
    """Points that belong together; `low` and `high` are ends of intervals, if there are any."""

    name: str
    x: tuple[Place, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        lengths = {"x": len(self.x), "low": len(self.low), "high": len(self.high)}
        for name, length in lengths.items():
            if length != len(self.y) and (length or name == "x"):
                raise ValueError(
                    f"`{name}` must have as many entries as `y`; got {length} and {len(self.y)} "
                    f"in the series {self.name!r}."
                )


@dataclass(frozen=True)
class Panel:
    """One pair of axes. `diagonal` draws y = x, `level` a dashed horizontal line with its name."""

    kind: Kind
    x_label: str
    y_label: str
    series: tuple[Series, ...]
    title: str = ""
    x_scale: Scale = "linear"
    y_scale: Scale = "linear"
    diagonal: bool = False
    level: tuple[str, float] | None = None


@dataclass(frozen=True)
class Figure:
    """A titled figure; the caption says what is shown and is to be understood without the text."""

    name: str
    title: str
    caption: str
    panels: tuple[Panel, ...] = field(repr=False)
