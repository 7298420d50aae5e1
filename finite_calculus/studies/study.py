"""What the harness asks of a study, and which studies there are.

A study is a value with a few functions; the harness knows nothing else about it. Names of the paper's
studies that this version does not contain are known, so that asking for them is answered plainly.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from finite_calculus.studies.settings import StudySettings
from finite_calculus.studies.tables import Table

NAMES = ("joint-kv", "positional", "reconstruction", "regression", "answer-repair", "runtime")

Rows = Sequence[Mapping[str, Any]]
Arrays = Mapping[str, np.ndarray]


class GateShutError(RuntimeError):
    """A preflight that did not pass: nothing may stand on this model."""


@dataclass(frozen=True)
class Prompts:
    """The prompts of a run: units in order, and a manifest without any text of a data set.

    `first` are the token ids that the preflight runs on; `content` is what the study itself needs to
    run a unit.
    """

    units: tuple[str, ...]
    manifest: Mapping[str, Any]
    first: tuple[int, ...]
    content: Mapping[str, Any] = field(repr=False)


@dataclass(frozen=True)
class UnitResult:
    """What one unit leaves: rows by table name, and tensors for replay."""

    tables: Mapping[str, Rows]
    tensors: Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """One recorded number against its replay, with the sum of the absolute values of its terms."""

    where: str
    name: str
    recorded: float
    replayed: float
    scale: float

    @property
    def relative(self) -> float:
        """The difference in units of the scale of its terms; infinite for what is not a number."""
        apart = abs(self.recorded - self.replayed)
        if apart == 0:
            return 0.0
        return apart / self.scale if apart < np.inf and self.scale > 0 else float("inf")


@dataclass(frozen=True)
class Study:
    """A study as the harness sees it.

    `prompts(settings, tokenizer, data)` builds and checks all prompts before anything runs;
    `weights(instrument, settings)` are tensors that all units share; `unit(instrument, settings,
    prompts, name)` runs one; `replay(settings, weights, tensors, rows)` recomputes its predictions
    without a model; `report(settings, tables)` makes the tables from records alone; `options`
    are the words of the command that reproduces the settings.
    """

    name: str
    settings: type[StudySettings]
    schemas: Mapping[str, pa.Schema]
    prompts: Callable[[Any, Any, Path | None], Prompts]
    weights: Callable[[Any, Any], Mapping[str, Any]]
    unit: Callable[[Any, Any, Prompts, str], UnitResult]
    replay: Callable[[Any, Arrays, Arrays, Rows], list[Comparison]]
    report: Callable[[Any, Mapping[str, pa.Table]], list[Table]]
    options: Callable[[Any], list[str]]


def find_study(name: str) -> Study:
    """A study by name; refuses names of the paper that are not part of this version, and others."""
    if name not in NAMES:
        raise ValueError(f"`study` must be one of {', '.join(NAMES)}; got {name!r}.")
    if name != "joint-kv":
        raise ValueError(f"The study {name!r} is not part of this version. Available: joint-kv.")
    from finite_calculus.studies.joint_kv import STUDY

    return STUDY
