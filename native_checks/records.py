"""The record of one native check: its figure, the derived bound with its reason, the paper's ceiling."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

# Appendix G's absolute and relative tolerance for native float32, kept beside every derived bound.
CEILING_ABSOLUTE, CEILING_RELATIVE = 5e-5, 5e-4
_TINY = torch.finfo(torch.float64).tiny
# Why no check of the present model has to keep the paper's tolerance; empty where they have to.
_WAIVED: ContextVar[str] = ContextVar("native_checks_waived", default="")
# The version of the saved records: raised when a field changes its meaning or goes away.
SCHEMA = 2


@dataclass(frozen=True)
class GateCheck:
    """One check of the gate.

    `passed` says that `figure` respects `bound` (as an upper limit, or a lower one if `at_least`) and
    that the paper's tolerance holds too, so that a loose bound cannot open the gate. `ceiling` is that
    tolerance at the entry that comes closest to it and `ceiling_figure` the figure there; both are
    None where a check compares no floating numbers. Where the tolerance is shown and not required,
    `waived` says why. `by_head` holds the largest difference in units of its bound for every layer
    (rows) and head, where a check looks at each.

    Where there is a probable bound beside the sure one, `probable_bound` is it at the entry that comes
    closest to it and `probable_figure` the figure there; `warnings` counts the entries beyond it, which shut
    no gate.
    `slack` is the median over all entries of the sure bound in units of the difference. `compared` is how
    many entries there were, None where something else is counted; `check` is the function that made the
    record, as module.function.
    """

    name: str
    figure: float
    bound: float
    reason: str
    passed: bool
    at_least: bool = False
    ceiling: float | None = None
    ceiling_figure: float | None = None
    waived: str = ""
    by_head: tuple[tuple[float, ...], ...] | None = None
    probable_bound: float | None = None
    probable_figure: float | None = None
    warnings: int = 0
    slack: float | None = None
    compared: int | None = None
    check: str = ""

    @property
    def within_ceiling(self) -> bool:
        """Whether the paper's tolerance holds too."""
        if self.ceiling is None or self.ceiling_figure is None:
            return True
        return self.ceiling_figure <= self.ceiling

    def line(self) -> str:
        """The record as one line of text."""
        sign = "≥" if self.at_least else "≤"
        limit = (
            ""
            if self.ceiling is None
            else f"  paper {self.ceiling_figure:.1e} ≤ {self.ceiling:.1e}"
        )
        if not self.within_ceiling:
            limit = limit.replace("≤", ">") + (
                f" not required: {self.waived}" if self.waived else ""
            )
        state = "pass" if self.passed else "FAIL"
        figures = f"{self.figure:.2e} {sign} {self.bound:.2e}"
        return f"{state}  {self.name:32s} {figures}{self._likely()}{limit}  {self.reason}"

    def _likely(self) -> str:
        """The probable bound, and a warning where it is exceeded."""
        if self.probable_bound is None:
            return ""
        if not self.warnings:
            return f"  probable {self.probable_figure:.1e} ≤ {self.probable_bound:.1e}"
        words = warning_words(self.warnings)
        return f"  WARNING probable {self.probable_figure:.1e} > {self.probable_bound:.1e}{words}"


@contextmanager
def ceilings_waived(reason: str) -> Iterator[None]:
    """A block whose checks show the paper's tolerance and need not keep it; no reason, no waiver."""
    token = _WAIVED.set(reason)
    try:
        yield
    finally:
        _WAIVED.reset(token)


def compared(
    name: str,
    apart: Tensor,
    bound: Tensor,
    reference: Tensor,
    reason: str,
    *,
    probable: Tensor | None = None,
    waived: str = "",
) -> GateCheck:
    """A check of differences against an entrywise bound, reported at the entry that comes closest.

    A NaN anywhere fails, and so does a bound that is not finite: it would let anything pass. The paper's
    tolerance has to hold too unless `waived` says why it need not. What exceeds the `probable` bound is
    counted as a warning and fails nothing.
    """
    apart, bound, reference = (x.detach().double().reshape(-1) for x in (apart, bound, reference))
    waived = waived or _WAIVED.get()
    apart = torch.nan_to_num(apart.abs(), nan=torch.finfo(torch.float64).max)
    tightest = int((apart / bound.clamp(min=_TINY)).argmax())
    ceilings = CEILING_ABSOLUTE + CEILING_RELATIVE * torch.nan_to_num(reference.abs())
    nearest = int((apart / ceilings).argmax())
    tolerable = bool(waived) or bool((apart <= ceilings).all())
    check = GateCheck(
        name,
        float(apart[tightest]),
        float(bound[tightest]),
        reason,
        passed=tolerable and bool(((apart <= bound) & torch.isfinite(bound)).all()),
        ceiling=float(ceilings[nearest]),
        ceiling_figure=float(apart[nearest]),
        waived=waived,
        compared=len(apart),
    )
    if probable is None:
        return check
    likely = probable.detach().double().reshape(-1)
    nearest = int((apart / likely.clamp(min=_TINY)).argmax())
    return replace(
        check,
        probable_bound=float(likely[nearest]),
        probable_figure=float(apart[nearest]),
        warnings=int((~(apart <= likely)).sum()),
        slack=_slack(apart, bound),
    )


def _slack(apart: Tensor, bound: Tensor) -> float | None:
    """The median of bound over difference, of the entries that differ at all; None if none does."""
    differ = apart > 0
    return float((bound[differ] / apart[differ]).median()) if bool(differ.any()) else None


@dataclass
class Gathered:
    """Differences of one check with their bounds, layer by layer, until all are compared at once."""

    name: str
    parts: list[tuple[Tensor, Tensor, Tensor]] = field(default_factory=list)

    def add(self, apart: Tensor, bound: Tensor, reference: Tensor | None = None) -> None:
        """More differences; the paper's relative tolerance refers to `reference`, if one is given."""
        reference = torch.zeros_like(apart) if reference is None else reference
        shape = torch.broadcast_shapes(apart.shape, bound.shape, reference.shape)
        apart, bound, reference = (x.expand(shape).reshape(-1) for x in (apart, bound, reference))
        self.parts.append((apart, bound, reference))

    def check(self, reason: str, *, none: str = "", waived: str = "") -> "GateCheck":
        """The comparison of all of them; where there is none, the record says why."""
        if not self.parts:
            return replace(counted(self.name, 0, f"nothing to compare: {none}"), compared=0)
        apart, bound, reference = (torch.cat(part) for part in zip(*self.parts, strict=True))
        return compared(self.name, apart, bound, reference, reason, waived=waived)


def counted(name: str, violations: int, reason: str) -> GateCheck:
    """A check that admits no violation."""
    return GateCheck(name, float(violations), 0.0, reason, passed=violations == 0)


def warning_words(warnings: int) -> str:
    """As in ", 3 entries beyond a probable bound"; nothing where there are none."""
    entries = "entry" if warnings == 1 else "entries"
    return f", {warnings} {entries} beyond a probable bound" if warnings else ""


def refused(name: str, error: Exception) -> GateCheck:
    """The record of a check that could not be carried out: the gate is shut, with the error's words."""
    return counted(name, 1, f"{type(error).__name__}: {error}")


def write_json(record: dict[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write a record with its schema, whole or not at all: a temporary file, then a rename."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(target.name + ".part")
    temporary.write_text(json.dumps({"schema": SCHEMA, **record}, indent=1, allow_nan=False) + "\n")
    os.replace(temporary, target)
    return target
