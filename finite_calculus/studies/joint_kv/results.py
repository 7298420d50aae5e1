"""Records of the joint study as arrays: one setting is a task, a layer and a strength."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from finite_calculus.harness import Interval, paired_interval
from finite_calculus.studies.joint_kv.rows import Intervention
from finite_calculus.studies.joint_kv.settings import JointKVSettings

# The predictors of the paper's tables, and where a record holds each; zero is not stored.
PREDICTORS = {
    "zero": None,
    "first order": "predicted_first_order",
    "separate": "predicted_separate",
    "quadratic": "predicted_quadratic",
    "exact joint": "predicted_joint",
    "dense": "dense",
}
# Beside them, where a record holds it: the second order downstream.
SECOND = "predicted_second"
COMPARATORS = ("zero", "first order", "separate", "quadratic")
_NUMBERS = tuple(f.name for f in fields(Intervention) if f.type in (float, float | None))


@dataclass(frozen=True, eq=False)
class Setting:
    """Edits of one task, layer and strength; every column is an array over pairs and spans."""

    task: str
    layer: int
    strength: float
    columns: Mapping[str, np.ndarray]

    @property
    def executed(self) -> np.ndarray:
        """Executed margin changes."""
        return self.columns["effect"]

    def predicted(self, predictor: str) -> np.ndarray:
        """Predicted margin changes."""
        source = PREDICTORS[predictor]
        return np.zeros_like(self.executed) if source is None else self.columns[source]

    def contrast(self, comparator: str, settings: JointKVSettings) -> Interval:
        """Error of exact joint minus that of a comparator, with its paired interval."""
        joint, other = (
            np.abs(self.predicted(name) - self.executed).ravel()
            for name in ("exact joint", comparator)
        )
        return paired_interval(
            joint,
            other,
            self.columns["pair"].ravel(),
            resamples=settings.resamples,
            coverage=settings.coverage,
            seed=settings.bootstrap_seed,
        )


def results(rows: Sequence[Intervention], kind: str) -> Iterator[Setting]:
    """Settings of one kind of edit, in order of first appearance."""
    grouped: dict[tuple[str, int, float], list[Intervention]] = {}
    for row in rows:
        if row.kind == kind:
            grouped.setdefault((row.task, row.layer, row.strength), []).append(row)
    for place, listed in grouped.items():
        yield Setting(*place, _arrays(listed))


def _arrays(rows: Sequence[Intervention]) -> dict[str, np.ndarray]:
    """Columns as (pairs, spans), sorted by pair and span; what is missing is not a number."""
    ordered = sorted(rows, key=lambda row: (row.pair, row.span))
    pairs = len({row.pair for row in ordered})
    return {
        name: np.array([getattr(row, name) for row in ordered], dtype=float).reshape(pairs, -1)
        for name in ("pair", *_NUMBERS)
    }
