"""Tables of the regression study, from its records alone: the paper's, then what the paper leaves open."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from finite_calculus.harness import Interval, Records, Table, paired_interval
from finite_calculus.harness.checks import CheckRow, totals
from finite_calculus.studies.regression.rows import CONTROL, Direction, Model
from finite_calculus.studies.regression.settings import RegressionSettings

# The seeds of the paper's table, and the cosine of the one that lies apart in it.
PAPER_SEEDS = (0, 1, 2)
OUTLIER = 0.8231
# Between the two outcomes of training that softmax has.
_APART = 0.9
_COSINES = ("jacobian", "original", "mean", "original_jacobian", "mean_jacobian")


@dataclass(frozen=True)
class Measured:
    """One model with its mean cosines over the diagnostic queries."""

    model: Model
    cosines: Mapping[str, float]


def report(settings: RegressionSettings, records: Records) -> Iterator[Table]:
    """All tables of the study."""
    measured = _measured(records)
    trained = [each for each in measured if each.model.architecture != CONTROL]
    names = list(dict.fromkeys(each.model.architecture for each in trained))
    by_name = {n: [each for each in trained if each.model.architecture == n] for n in names}
    yield _alignment(by_name)
    yield _distribution(by_name)
    yield _outcomes(by_name)
    yield _directions(by_name, settings)
    yield _prediction(by_name)
    yield _audit(measured, records)
    yield _models(measured)


def _measured(records: Records) -> list[Measured]:
    rows: dict[tuple[str, int], list[Direction]] = {}
    for row in records.rows(Direction):
        rows.setdefault((row.architecture, row.seed), []).append(row)
    return [
        Measured(model, _means(rows[model.architecture, model.seed]))
        for model in records.rows(Model)
    ]


def _means(rows: Sequence[Direction]) -> dict[str, float]:
    return {name: float(np.mean([getattr(row, name) for row in rows])) for name in _COSINES}


def _alignment(by_name: Mapping[str, Sequence[Measured]]) -> Table:
    rows = []
    for name, listed in by_name.items():
        first = {each.model.seed: each for each in listed if each.model.seed in PAPER_SEEDS}
        cosines = [first[s].cosines["jacobian"] if s in first else None for s in PAPER_SEEDS]
        rows.append((name, *cosines, _disagreement(list(first.values())), _disagreement(listed)))
    columns = ("architecture", *(f"seed {s}" for s in PAPER_SEEDS), "disagreement, these seeds",
               "disagreement, all seeds")  # fmt: skip
    note = (
        "Mean cosine between the query Jacobian of the trained model and that of the calibrated learner, "
        "and mean squared difference of their predictions on the test episodes: the paper's table."
    )
    return Table("alignment", "Trained attention beside the learner", columns, tuple(rows), note)


def _disagreement(listed: Sequence[Measured]) -> float:
    return float(np.mean([each.model.disagreement_mse for each in listed]))


def _distribution(by_name: Mapping[str, Sequence[Measured]]) -> Table:
    rows = []
    for name, listed in by_name.items():
        cosines = np.array([each.cosines["jacobian"] for each in listed])
        lowest = listed[int(cosines.argmin())].model.seed
        low = [int((cosines <= limit).sum()) for limit in (_APART, OUTLIER)]
        spread = [float(q) for q in np.quantile(cosines, (0, 0.25, 0.5, 0.75, 1))]
        rows.append((name, len(listed), *spread, lowest, *low))
    columns = ("architecture", "seeds", "least", "25 %", "median", "75 %", "largest", "least at seed",
               f"at most {_APART}", f"at most {OUTLIER}")  # fmt: skip
    note = (
        f"Mean Jacobian cosine of each seed. {OUTLIER} is the paper's RoPE–softmax model of seed 0, which "
        f"lies apart there."
    )
    return Table("distribution", "Jacobian cosines over the seeds", columns, tuple(rows), note)


def _outcomes(by_name: Mapping[str, Sequence[Measured]]) -> Table:
    rows = []
    for name, listed in by_name.items():
        for words, below in ((f"at most {_APART}", True), (f"above {_APART}", False)):
            own = [each for each in listed if (each.cosines["jacobian"] <= _APART) == below]
            if own:
                cosines = [float(np.mean([each.cosines[c] for each in own])) for c in _COSINES[:2]]
                error = float(np.mean([each.model.test_mse for each in own]))
                rows.append((name, words, len(own), *cosines, error, _disagreement(own)))
    columns = ("architecture", "Jacobian cosine", "seeds", "mean cosine", "mean cosine of the step",
               "test MSE", "disagreement MSE")  # fmt: skip
    note = "Models on either side of the gap in the distribution; the step is in the original-score gauge."
    return Table("outcomes", "Two outcomes of training", columns, tuple(rows), note)


def _directions(by_name: Mapping[str, Sequence[Measured]], settings: RegressionSettings) -> Table:
    rows = []
    for name, listed in by_name.items():
        if name == "linear":
            continue
        mean = {c: float(np.mean([each.cosines[c] for each in listed])) for c in _COSINES}
        more = {g: _difference(listed, g, settings) for g in ("original", "mean")}
        for gauge, interval in more.items():
            rows.append(
                (name, gauge, mean["jacobian"], mean[gauge], interval.estimate, interval.low,
                 interval.high, mean[f"{gauge}_jacobian"])
            )  # fmt: skip
    columns = ("architecture", "gauge", "Jacobian to learner", "step to learner", "difference", "low", "high",
               "step to Jacobian")  # fmt: skip
    note = (
        f"Mean cosines. The step is the exact effective-weight step of both heads along the prediction, in "
        f"the original-score or the mean-key gauge. Difference: step minus Jacobian, both to the learner; "
        f"percentile {100 * settings.coverage:g}% intervals of {settings.resamples} resamples of the "
        f"seeds. For linear attention step and Jacobian are one vector."
    )
    return Table("directions", "The exact step beside the learner", columns, tuple(rows), note)


def _difference(listed: Sequence[Measured], gauge: str, settings: RegressionSettings) -> Interval:
    first, second = (
        np.array([each.cosines[name] for each in listed]) for name in (gauge, "jacobian")
    )
    return paired_interval(
        first,
        second,
        np.array([each.model.seed for each in listed]),
        resamples=settings.resamples,
        coverage=settings.coverage,
        seed=settings.bootstrap_seed,
    )


def _prediction(by_name: Mapping[str, Sequence[Measured]]) -> Table:
    rows = []
    for name, listed in by_name.items():
        models = [each.model for each in listed]
        means = [
            float(np.mean([getattr(m, field) for m in models]))
            for field in ("rate", "test_mse", "reference_mse", "step")
        ]
        rows.append((name, *means))
    columns = ("architecture", "calibrated rate", "test MSE", "MSE of the learner", "step chosen")
    note = "Means over all seeds. MSE is to the targets; the learner has each model's own rate."
    return Table("prediction", "Predictions of the targets", columns, tuple(rows), note)


def _audit(measured: Sequence[Measured], records: Records) -> Table:
    checks, failed = totals(records.rows(CheckRow))
    control = [each for each in measured if each.model.architecture == CONTROL]
    rows: list[tuple[str, float | int | str]] = [
        ("models", len(measured)),
        ("checks recorded", checks),
        ("checks failed", failed),
    ]
    for each in control:
        rows += [
            ("control: calibrated rate", each.model.rate),
            ("control: disagreement MSE", each.model.disagreement_mse),
            ("control: Jacobian cosine, mean", repr(each.cosines["jacobian"])),
        ]
    return Table("audit", "Numerical audit", ("figure", "value"), tuple(rows))


def _models(measured: Sequence[Measured]) -> Table:
    rows = tuple((*vars(each.model).values(), *each.cosines.values()) for each in measured)
    columns = (*(vars(measured[0].model) if measured else ()), *_COSINES)
    return Table("models", "Every model", columns, rows, only_csv=True)
