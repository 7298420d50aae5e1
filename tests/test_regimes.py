"""Where plain formulas fail: each regime, with the plain form that loses it and ours that does not.

The plain form must really fail, or the regime tests nothing; ours must stay within 1e-13 of the
definition in Arb, relative to the largest entry of the result.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import finite_calculus as fc
from proofs.references import bank, effective, restoration
from tests.helpers import plain_forms
from tests.helpers.accuracy import PROMISE, relative_error
from tests.helpers.tensors import draw

MASK_ALL = [True] * 8


@dataclass(frozen=True)
class Regime:
    """A bank in some regime, the reference, the plain form, and the error it must at least have."""

    name: str
    reference: Callable[..., Any]
    plain: Callable[..., torch.Tensor]
    ours: Callable[..., torch.Tensor]
    plain_error: float
    lead: float = 0.0
    increments: Callable[[torch.Tensor], torch.Tensor] = lambda z: z

    def case(self, seed: int) -> dict[str, Any]:
        scores = draw(8, seed=seed)
        scores[3] = scores.max() + self.lead if self.lead else scores[3]
        return {
            "scores": scores,
            "values": draw(8, 3, seed=seed + 1),
            "score_delta": self.increments(draw(8, seed=seed + 2)),
            "second_delta": self.increments(draw(8, seed=seed + 3)),
            "value_delta": draw(8, 3, seed=seed + 4),
            "mask": MASK_ALL,
            "removed": [[j == 3 for j in range(8)]],
        }


def on_readout(function: Callable, *names: str) -> Callable:
    return lambda **case: function(
        fc.freeze(case["scores"], case["values"]), *[case[name] for name in names]
    )


def tiny(size: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda z: size * z


def against_the_lead(lead: float) -> Callable[[torch.Tensor], torch.Tensor]:
    """The dominant key loses its lead and more."""
    return lambda z: torch.where(torch.arange(8) == 3, -lead - 3 + 0 * z, 0.0)


CHANGE = on_readout(fc.probability_change, "score_delta")
RESPONSE = on_readout(fc.key_response, "score_delta")
NORMALISER = on_readout(fc.log_normaliser, "score_delta")
REPAIR = on_readout(fc.restoration_response, "score_delta", "value_delta")
DELETION = on_readout(
    lambda readout, removed: fc.deletion_response(readout, torch.tensor(removed)), "removed"
)
BANDS = on_readout(fc.band_interaction, "score_delta", "second_delta")
REGIMES = [
    *[
        Regime(
            f"small increments {size:g}, {name}",
            bank.probability_change,
            plain,
            CHANGE,
            error,
            increments=tiny(size),
        )
        for name, plain in (
            ("difference", plain_forms.softmax_difference),
            ("the paper's recipe", plain_forms.paper_recipe),
        )
        for size, error in ((1e-8, 1e-10), (1e-12, 1e-6), (1e-16, 1e-2))
    ],
    Regime(
        "nearly common shift",
        bank.probability_change,
        plain_forms.softmax_difference,
        CHANGE,
        1e-9,
        increments=lambda z: 50 + 1e-8 * z,
    ),
    *[
        Regime(
            f"divergence at {size:g}",
            bank.divergence,
            plain_forms.divergence,
            on_readout(fc.divergence, "score_delta"),
            error,
            increments=tiny(size),
        )
        for size, error in ((1e-3, 1e-11), (1e-6, 1e-6), (1e-9, 1.0))
    ],
    *[
        Regime(
            f"denominator, lead {lead:g}",
            bank.log_normaliser,
            plain_forms.denominator,
            NORMALISER,
            error,
            lead=lead,
            increments=against_the_lead(lead),
        )
        for lead, error in ((20.0, 1e-11), (36.0, 1e-3), (50.0, 1e-3))
    ],
    *[
        Regime(
            f"single restoration, lead {lead:g}",
            bank.restoration_response,
            plain_forms.single_repair,
            REPAIR,
            error,
            lead=lead,
            increments=against_the_lead(lead),
        )
        for lead, error in ((20.0, 1e-11), (36.0, 1e-4), (50.0, 1e-4))
    ],
    *[
        Regime(
            f"readout by subtraction, lead {lead:g}",
            bank.key_response,
            plain_forms.subtracted_readouts,
            RESPONSE,
            error,
            lead=lead,
        )
        for lead, error in ((10.0, 1e-12), (25.0, 1e-7), (40.0, 1e-2))
    ],
    Regime(
        "increments of 600 to 900",
        bank.log_normaliser,
        plain_forms.overflowing_denominator,
        NORMALISER,
        1.0,
        increments=lambda z: 750 + 50 * z.clamp(-3, 3),
    ),
    *[
        Regime(
            f"deletion, lead {lead:g}",
            bank.deletion_response,
            plain_forms.deletion,
            DELETION,
            error,
            lead=lead,
        )
        for lead, error in ((20.0, 1e-11), (36.0, 1e-3), (50.0, 1e-3))
    ],
    *[
        Regime(
            f"band interaction at {size:g}",
            bank.band_interaction,
            plain_forms.band_interaction,
            BANDS,
            error,
            increments=tiny(size),
        )
        for size, error in ((1e-2, 1e-12), (1e-5, 1e-7), (1e-8, 1e-2))
    ],
    Regime(
        "subnormal probabilities",
        bank.key_response,
        plain_forms.grown_weights,
        RESPONSE,
        1e-4,
        lead=740.0,
        increments=lambda z: torch.where(torch.arange(8) == 3, 0.0, 740 + z),
    ),
]


@pytest.mark.parametrize("regime", REGIMES, ids=lambda regime: regime.name)
def test_our_form_keeps_the_digits_that_the_plain_form_loses(regime: Regime) -> None:
    ours, plain = [], []
    for seed in range(0, 200, 10):
        case = regime.case(seed)
        ours.append(relative_error(regime.ours(**case), regime.reference, **case))
        plain.append(relative_error(regime.plain(**case), regime.reference, **case))
    assert max(ours) <= PROMISE
    assert max(plain) >= regime.plain_error


def test_phi1_near_zero_keeps_the_digits_that_the_quotient_loses() -> None:
    x = 10.0 ** torch.linspace(-20, -1, 50, dtype=torch.float64)
    assert relative_error(fc.phi1(x), effective.phi1, x=x) <= PROMISE
    assert relative_error((x.exp() - 1) / x, effective.phi1, x=x) >= 0.5


def test_a_tiny_rotation_keeps_the_digits_that_cos_minus_one_loses() -> None:
    angle = torch.tensor([1e-3, 1e-6, 1e-9, 1e-12], dtype=torch.float64)
    rotary = fc.Rotary(angle, 8)
    displacement = fc.displacement(rotary, torch.tensor([1.0] * 4 + [0.0] * 4).double(), 1.0)[:4]

    def lowered(num, x):
        return [num.cos(a) - num.real(1.0) for a in x]

    for k in range(4):
        assert relative_error(displacement[k : k + 1], lowered, x=angle[k : k + 1]) <= PROMISE
    assert relative_error(angle[-1:].cos() - 1, lowered, x=angle[-1:]) >= 0.5


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_effective_weights_survive_scores_of_900_in_the_gauge_of_the_largest_score(sign) -> None:
    query, values = torch.tensor([sign * 30.0, 1.0]).double(), draw(6, 3, seed=5)
    features = torch.stack([30.0 + draw(6, seed=6) / 30, draw(6, seed=7)], -1)
    scores = features @ query
    gauge = fc.reference_key_gauge(features, int(scores.argmax()))
    weights = fc.effective_weights(query, features, values, gauge=gauge)
    exact = {"query_input": query, "features": features, "values": values, "mask": [True] * 6}
    assert relative_error(weights.output, effective.output, **exact) <= PROMISE
    plain = ((scores.exp() - 1) / scores) / scores.exp().sum()
    assert not torch.isfinite(plain).all() or sign < 0
    if sign < 0:
        with pytest.raises(ValueError, match="overflow in this gauge"):
            fc.effective_weights(query, features, values)


def test_a_tiny_restoration_benefit_keeps_the_digits_that_two_norms_lose() -> None:
    error, change = draw(5, seed=1), 1e-12 * draw(3, 5, seed=2)
    exact = {"error": error, "change": change}
    ours = fc.restoration_benefit(error, change)
    assert relative_error(ours, effective.restoration_benefit, **exact) <= PROMISE
    plain = error.square().sum() - (error + change).square().sum(-1)
    assert relative_error(plain, effective.restoration_benefit, **exact) >= 1e-6


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize(("depth", "error"), [(20.0, 1e-9), (36.0, 1e-2), (300.0, 1.0)])
def test_first_order_deletion_is_summed_from_the_side_that_loses_no_digits(
    depth: float, error: float, alone: bool
) -> None:
    scores, values = draw(8, seed=1), draw(8, 3, seed=2)
    scores[0] = -depth
    removed = (torch.arange(8) == 0) == alone  # the faint key, or all the others
    exact = {"mask": MASK_ALL, "scores": scores, "values": values, "removed": removed[None]}
    readout = fc.freeze(scores, values)
    ours = fc.deletion_jacobian(readout, removed[None])
    assert relative_error(ours, bank.deletion_jacobian, **exact) <= PROMISE
    weights = torch.where(torch.arange(8) == 0, 0.0, readout.probs)
    heavier = (weights if alone else -weights) @ readout.centred
    assert relative_error(heavier, bank.deletion_jacobian, **exact) >= error


@pytest.mark.parametrize(("lead", "error"), [(20.0, 1e-9), (36.0, 1e-3), (50.0, 0.1)])
def test_fishers_weight_of_a_dominant_key_keeps_the_digits_that_one_minus_p_loses(
    lead: float, error: float
) -> None:
    scores, original = draw(1, 8, seed=1), draw(1, 8, seed=2)
    scores[0, 3] = scores.max() + lead
    original[0, 3] += lead
    values, weight = draw(1, 8, 2, seed=3), draw(1, 2, 3, seed=4)
    exact = {"scores": scores, "original_scores": original}
    ours = fc.restoration_scores(fc.CachePair(scores, values, original, values), weight, "fisher")
    assert relative_error(ours, restoration.fisher, **exact) <= PROMISE
    p = torch.softmax(scores, -1)
    plain = (p * (1 - p) * (original - scores) ** 2).sum(0)
    assert relative_error(plain, restoration.fisher, **exact) >= error


@pytest.mark.parametrize("position", [511, 30_011, 131_071, 999_983])
def test_angles_from_stored_frequencies_keep_the_digits_that_float32_angles_lose(position) -> None:
    frequencies_32 = (1e6 ** -(torch.arange(0, 64, dtype=torch.float64) / 64)).float()
    ones = torch.cat([torch.ones(64), torch.zeros(64)]).double()
    ours = fc.rotate(fc.Rotary(frequencies_32, 128), ones, float(position))[:64]

    def cosines(num, frequencies):
        return [num.cos(num.real(float(position)) * w) for w in frequencies]

    assert relative_error(ours, cosines, frequencies=frequencies_32) <= PROMISE
    plain = torch.cos(torch.tensor(float(position)) * frequencies_32).double()
    assert relative_error(plain, cosines, frequencies=frequencies_32) >= 1e-6


def test_masked_scores_give_finite_numbers_where_infinite_scores_give_nan() -> None:
    scores, values = draw(8, seed=1), draw(8, 3, seed=2)
    mask = torch.arange(8) < 5
    infinite = scores.masked_fill(~mask, -torch.inf)
    readout = fc.freeze(infinite, values, mask=mask)
    ratio = fc.log_ratio(readout, draw(8, seed=3))
    assert torch.isfinite(ratio).all()
    plain = torch.log_softmax(infinite + draw(8, seed=3), -1) - torch.log_softmax(infinite, -1)
    assert plain.isnan().any()
