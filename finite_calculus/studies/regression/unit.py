"""One model of the study: trained or constructed, calibrated on validation, held against the learner.

Everything held out is computed in float64 from the float32 weights.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from finite_calculus.effective import unit_gradient_step
from finite_calculus.harness import Check, UnitResult, compare, count
from finite_calculus.regression import aligned_rate
from finite_calculus.rounding import error_of, track, value_of
from finite_calculus.studies.regression.block import HEADS, TOKEN, WIDTH, Weights, bank_of, predict
from finite_calculus.studies.regression.directions import (
    GAUGES,
    EffectiveStep,
    cosine,
    effective_step,
    head_features,
    head_step,
    jacobians,
)
from finite_calculus.studies.regression.episodes import (
    INPUTS,
    SUPPORT,
    Episodes,
    draw_episodes,
    stream,
)
from finite_calculus.studies.regression.rows import CONTROL, Direction, Model, Validation
from finite_calculus.studies.regression.settings import RegressionSettings
from finite_calculus.studies.regression.training import Trained, squared_error, train

# The rate of the paper's constructed control.
CONTROL_RATE = 0.7
_UNIT = torch.finfo(torch.float64).eps / 2


@dataclass(frozen=True)
class Job:
    """A unit: an architecture under a seed, or the control."""

    architecture: str
    seed: int


def held_out(settings: RegressionSettings) -> dict[str, Episodes]:
    """Validation and test episodes, the same for every model."""
    counts = {"validation": settings.validation, "test": settings.test}
    return {
        name: draw_episodes(stream(settings.seed, name), number, settings.queries)
        for name, number in counts.items()
    }


def run_job(settings: RegressionSettings, job: Job) -> UnitResult:
    """Train or construct one model, then measure it."""
    episodes = held_out(settings)
    if job.architecture == CONTROL:
        error = float(squared_error("linear", control_weights(), episodes["validation"]))
        trained = Trained(control_weights(), 0, ((0, error),))
    else:
        trained = train(settings, job.architecture, job.seed, episodes["validation"])
    form = "linear" if job.architecture == CONTROL else job.architecture
    weights = trained.weights.double()
    validation, test = (episodes[name].double() for name in ("validation", "test"))
    rate = float(
        aligned_rate(
            predict(form, weights, validation.support, validation.queries), validation.reference
        )
    )
    predicted, reference = predict(form, weights, test.support, test.queries), rate * test.reference
    model = Model(
        job.architecture,
        job.seed,
        step=trained.step,
        validation_mse=dict(trained.curve)[trained.step],
        rate=rate,
        test_mse=float((predicted - test.targets).square().mean()),
        reference_mse=float((reference - test.targets).square().mean()),
        disagreement_mse=float((predicted - reference).square().mean()),
    )
    diagnostic = test.first(settings.diagnostics)
    steps = {gauge: effective_step(form, weights, diagnostic, gauge) for gauge in GAUGES}
    directions = list(_directions(job, form, weights, diagnostic, rate, steps))
    checks = _checks(form, weights, diagnostic)
    if job.architecture == CONTROL:
        checks += _control_checks(weights, diagnostic, rate, directions)
    curve = [Validation(job.architecture, job.seed, *point) for point in trained.curve]
    numbers = [*vars(model).values(), *(x for row in directions for x in vars(row).values())]
    finite = [x == x and abs(x) != float("inf") for x in numbers if isinstance(x, float)]
    checks.append(count("numbers that are not finite", [not each for each in finite]))
    rows = {"models": [model], "validations": curve, "directions": directions}
    return UnitResult(rows, checks, {n: w.detach() for n, w in trained.weights.tensors().items()})


def control_weights() -> Weights:
    """Linear attention that is the learner at rate 0.7: keys and queries pass x on, values t."""
    query, key, value, output = (
        torch.zeros(HEADS, *shape) for shape in (*[(TOKEN, WIDTH)] * 3, (WIDTH, TOKEN))
    )
    inputs = torch.arange(INPUTS)
    query[0, inputs, inputs] = WIDTH**0.5  # undoes the scaling of scores
    key[0, inputs, inputs] = 1.0
    value[0, INPUTS, 0] = 1.0
    output[0, 0, INPUTS] = CONTROL_RATE
    return Weights(query, key, value, output)


def _directions(
    job: Job,
    form: str,
    weights: Weights,
    episodes: Episodes,
    rate: float,
    steps: dict[str, EffectiveStep],
) -> Iterator[Direction]:
    slope = jacobians(form, weights, episodes)
    learner = episodes.gradient.unsqueeze(-2).expand(slope.shape)
    columns = {
        "prediction": predict(form, weights, episodes.support, episodes.queries),
        "reference": rate * episodes.reference,
        "jacobian": cosine(slope, learner),
    }
    for gauge, step in steps.items():
        columns |= {
            gauge: cosine(step.direction, learner),
            f"{gauge}_jacobian": cosine(step.direction, slope),
        }
    lists = {name: column.tolist() for name, column in columns.items()}
    for episode, query in torch.cartesian_prod(*map(torch.arange, slope.shape[:2])).tolist():
        values = {name: listed[episode][query] for name, listed in lists.items()}
        yield Direction(job.architecture, job.seed, episode, query, **values)


def _checks(form: str, weights: Weights, episodes: Episodes) -> list[Check]:
    """The prediction through the effective matrices is the model's; the matrices are gradient steps."""
    tracked = Weights(**{name: track(w) for name, w in weights.tensors().items()})
    followed = Episodes(*(track(x) for x in (episodes.support, episodes.queries, episodes.targets)))
    direct = predict(form, tracked, followed.support, followed.queries)
    checks = []
    for gauge in GAUGES:
        through = effective_step(form, tracked, followed, gauge).prediction
        name = f"prediction through effective weights, {gauge} gauge"
        checks.append(compare(name, _pairs(direct, through)))
    if form != "linear":
        checks.append(
            compare("effective weights as a gradient step", _steps(form, weights, episodes))
        )
    return checks


def _steps(form: str, weights: Weights, episodes: Episodes) -> list[tuple[float, float]]:
    """ΔM against −∇E(0) by automatic differentiation: the same sums of at most `SUPPORT` products."""
    bank = bank_of(form, weights, episodes.support)
    inputs = torch.cat([episodes.queries, torch.ones_like(episodes.queries[..., :1])], -1)
    pairs: list[tuple[float, float]] = []
    for head in range(HEADS):
        features = head_features(form, weights, bank, head)
        step = head_step(inputs, features, bank.values[:, head], "original")
        apart = (step.matrix - unit_gradient_step(step)).abs()
        sizes = step.coefficients.unsqueeze(-1) * step.centred.abs()
        bound = 2 * (SUPPORT + 4) * _UNIT * torch.matmul(step.features.abs().mT, sizes)
        pairs += zip(apart.flatten().tolist(), bound.flatten().tolist(), strict=True)
    return pairs


def _control_checks(
    weights: Weights, episodes: Episodes, rate: float, directions: list[Direction]
) -> list[Check]:
    """Prediction and Jacobian of the control are those of the learner, up to the rounding of their sums.

    A prediction is a sum of products of x, x_j, t_j and 0.7 as float32 holds it, over keys and inputs.
    """
    held = float(weights.output.max())
    inputs, targets = episodes.support[..., :INPUTS].abs(), episodes.support[..., INPUTS].abs()
    sizes = held * (inputs * targets.unsqueeze(-1)).mean(-2)
    slack = 2 * (SUPPORT + INPUTS + 16) * _UNIT
    asked = episodes.queries[..., :INPUTS].abs()
    terms = torch.matmul(asked, sizes.unsqueeze(-1)).squeeze(-1)
    predicted = predict("linear", weights, episodes.support, episodes.queries)
    apart = (predicted - held * episodes.reference).abs()
    slope = (jacobians("linear", weights, episodes) - held * episodes.gradient.unsqueeze(-2)).abs()
    bound = (slack * sizes).unsqueeze(-2).expand(slope.shape)
    # 1 − cos of two vectors that are apart by rounding; cos itself takes three sums of five products.
    angle = 2 * (INPUTS + 4) * 2 * _UNIT
    return [
        compare("control: prediction", _listed(apart, slack * terms)),
        compare("control: Jacobian", _listed(slope, bound)),
        compare(
            "control: calibrated rate",
            [(abs(rate - held), slack * held * _spread(terms, held, episodes))],
        ),
        compare(
            "control: 1 − cosine of the Jacobian",
            [(abs(1 - d.jacobian), angle) for d in directions],
        ),
    ]


def _spread(terms: Tensor, held: float, episodes: Episodes) -> float:
    """How much larger the terms of predictions are than the predictions: what cancels in Σfh/Σh²."""
    return (
        float(terms.square().sum().sqrt() / (held * episodes.reference).square().sum().sqrt()) * 2
    )


def _pairs(one: Tensor, other: Tensor) -> list[tuple[float, float]]:
    """Two tracked results that are equal in exact arithmetic, and what rounding may put between them."""
    apart = (value_of(one) - value_of(other)).abs()
    return _listed(apart, error_of(one) + error_of(other))


def _listed(figures: Tensor, bounds: Tensor) -> list[tuple[float, float]]:
    return list(zip(figures.flatten().tolist(), bounds.flatten().tolist(), strict=True))
