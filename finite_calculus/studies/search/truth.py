"""Figures of one prompt of the search study, from its saved candidates: recall, regret, errors, time.

Everything is an array over the candidates; sizes are absolute effects. Where two candidates tie, the earlier
row comes first.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.stats import spearmanr

from finite_calculus.harness import Records
from finite_calculus.studies.search.rows import Cost, Execution

# From what knows least of an edit to what knows most; the first three know its place alone.
PLACES = ("attention", "value_norm", "input_gradient")
EFFECTS = ("first", "relp", "integrated", "exact", "second", "corrected")
PREDICTORS = (*PLACES, *EFFECTS)
# Parts of the cost that each predictor needs before the first execution.
SETUP: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(PLACES, ("capture", "places")),
    "first": ("capture", "score", "first"),
    "relp": ("capture", "relp", "score"),
    "integrated": ("capture", "integrated", "score"),
    "exact": ("capture", "score"),
    "second": ("capture", "score", "curvature", "second"),
    "corrected": ("capture", "score", "curvature", "second", "calibrate"),
}
LARGE = 0.1


@dataclass(frozen=True, eq=False)
class Truth:
    """One prompt: columns of all its candidates, its costs, and the seconds of an edit at each layer."""

    task: str
    columns: Mapping[str, np.ndarray]
    cost: Cost
    seconds: Mapping[int, float]

    @cached_property
    def size(self) -> np.ndarray:
        """Sizes of the executed effects."""
        return np.abs(self.columns["executed"])

    @cached_property
    def unknown(self) -> np.ndarray:
        """Candidates that the calibration did not execute: errors are counted there."""
        return ~self.columns["known"]

    @cached_property
    def order_of_truth(self) -> np.ndarray:
        """All candidates by executed size."""
        return _descending(self.size)

    def keys(self, predictor: str) -> np.ndarray:
        """Predicted sizes; what the calibration executed is known to the corrected prediction."""
        predicted = np.abs(self.columns[predictor])
        if predictor == "corrected":
            return np.where(self.unknown, predicted, self.size)
        return predicted

    @cached_property
    def _orders(self) -> dict[str, np.ndarray]:
        return {}

    def order(self, predictor: str) -> np.ndarray:
        """All candidates by predicted size."""
        if predictor not in self._orders:
            self._orders[predictor] = _descending(self.keys(predictor))
        return self._orders[predictor]

    def recall(self, predictor: str, count: int) -> float:
        """The share of the executed top that is in the predicted top of the same length."""
        predicted = self.order(predictor)[:count]
        return len(np.intersect1d(predicted, self.order_of_truth[:count])) / count

    def regret(self, predictor: str) -> float:
        """What the predicted best lacks of the largest effect, as a share of it.

        Executed beside what the calibration knows already, for the prediction that has it.
        """
        best = self.size[self.order(predictor)[0]]
        if predictor == "corrected":
            best = max(best, self.size[~self.unknown].max(initial=0.0))
        return float(1 - best / self.size.max())

    def rank_correlation(self, predictor: str) -> float:
        """Spearman's, of predicted and executed sizes."""
        result: Any = spearmanr(self.keys(predictor), self.size)
        return float(result.statistic)

    def signs(self, predictor: str) -> float:
        """The share of right signs among effects above rounding."""
        chosen = self.unknown & (self.size > self.cost.floor)
        wrong = np.sign(self.columns[predictor]) != np.sign(self.columns["executed"])
        return float(1 - wrong[chosen].mean())

    def errors(self, predictor: str) -> np.ndarray:
        """|predicted − executed| of every candidate."""
        return np.abs(self.columns[predictor] - self.columns["executed"])

    def setup(self, predictor: str) -> float:
        """Seconds before the first execution."""
        return sum(getattr(self.cost, part) for part in SETUP[predictor])

    @cached_property
    def everything(self) -> float:
        """Seconds of executing all candidates, the capture charged."""
        return self.cost.capture + float(self._of_rows.sum())

    @cached_property
    def _of_rows(self) -> np.ndarray:
        lookup = np.array([self.seconds[n] for n in range(max(self.seconds) + 1)])
        return lookup[self.columns["layer"]]

    def reach(self, predictor: str, count: int, share: float) -> tuple[int, float]:
        """Executions, and seconds with the set-up, until the share of the top is among the executed."""
        known = ~self.unknown if predictor == "corrected" else np.zeros_like(self.unknown)
        order = self.order(predictor)
        order = np.concatenate([order[known[order]], order[~known[order]]])
        place = np.empty(len(order), dtype=int)
        place[order] = np.arange(len(order))
        needed = np.sort(place[self.order_of_truth[:count]])[math.ceil(share * count) - 1] + 1
        done = order[:needed]
        spent = self._of_rows[done][~known[done]].sum()
        return max(int(needed), int(known.sum())), self.setup(predictor) + float(spent)


def truths(records: Records) -> Iterator[Truth]:
    """The prompts of a run, in their order."""
    candidates = _numpy(records, "candidates")
    places = _numpy(records, "places")
    costs = {(row.task, row.prompt): row for row in records.rows(Cost)}
    spent: dict[tuple[str, int], dict[int, float]] = {}
    for row in records.rows(Execution):
        spent.setdefault((row.task, row.prompt), {})[row.layer] = row.seconds / row.candidates
    for (task, prompt), cost in costs.items():
        own = _part(candidates, task, prompt)
        where = _part(places, task, prompt)
        index = np.full((where["layer"].max() + 1, where["token"].max() + 1), -1)
        index[where["layer"], where["token"]] = np.arange(len(where["layer"]))
        at = index[own["layer"], own["token"]]
        columns = {**own, **{name: where[name][at] for name in PLACES}}
        yield Truth(task, columns, cost, spent[task, prompt])


def _numpy(records: Records, name: str) -> dict[str, np.ndarray]:
    table = records.tables.tables[name]
    columns = {column: table[column].to_numpy() for column in table.column_names}
    # Halves and singles are widened, so that no sum is taken in them.
    return {
        column: values.astype(np.float64) if values.dtype.kind == "f" else values
        for column, values in columns.items()
    }


def _part(columns: Mapping[str, np.ndarray], task: str, prompt: int) -> dict[str, np.ndarray]:
    chosen = (columns["task"] == task) & (columns["prompt"] == prompt)
    return {name: values[chosen] for name, values in columns.items()}


def _descending(keys: np.ndarray) -> np.ndarray:
    return np.argsort(-keys, kind="stable")
