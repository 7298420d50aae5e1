"""Increments of any finite size, on any key: they tend to the deletion, and no other key pays for them."""

import itertools
import math

import pytest
import torch
from flint import arb, ctx
from torch import Tensor

import finite_calculus as fc
from tests.helpers.tensors import draw

DTYPES = [torch.float32, torch.float64]
# Beyond a few roundings of the largest value, digits were lost.
ROUNDINGS = 8


def sizes(dtype: torch.dtype) -> list[float]:
    largest = torch.finfo(dtype).max
    return [1e3, 1e4, 1e9, 1e20, largest / 2, largest]


def softmax(scores: list[arb]) -> list[arb]:
    top = max(scores, key=lambda x: float(x.mid()))
    weights = [(score - top).exp() for score in scores]
    total = sum(weights, arb(0))
    return [weight / total for weight in weights]


def exact_probs(scores: Tensor, increments: Tensor) -> tuple[list[arb], list[arb]]:
    """p and p' from their definition, in balls of 1,000 bits more than the largest number has."""
    before = [arb(float(score)) for score in scores]
    after = [s + arb(float(d)) for s, d in zip(before, increments, strict=True)]
    return softmax(before), softmax(after)


@pytest.fixture(autouse=True)
def _precision():
    before, ctx.prec = ctx.prec, 2200
    yield
    ctx.prec = before


Edits = tuple[Tensor, Tensor, Tensor]


def edits(dtype: torch.dtype) -> list[Edits]:
    """Batches of scores, values and increments: a key is taken out or brought in, or two are, by any size."""
    return [
        batch_of(dtype, sign, second) for sign, second in itertools.product((-1.0, 1.0), (0.0, 1.0))
    ]


def batch_of(dtype: torch.dtype, sign: float, second: float) -> Edits:
    rows, moves, increments = [], [], draw(6, seed=11, dtype=dtype)
    for (number, size), spread in itertools.product(enumerate(sizes(dtype)), (1.0, 5.0, 40.0)):
        scores = (spread * draw(6, seed=number)).to(dtype)
        for key in (int(scores.argmax()), int(scores.argmin()), 2):
            moved = increments.clone()
            moved[key] = sign * size
            if second:
                moved[(key + 1) % 6] = -sign * size
            rows.append(scores)
            moves.append(moved)
    values = draw(6, 2, seed=7, dtype=dtype)
    return torch.stack(rows), values.expand(len(rows), 6, 2).contiguous(), torch.stack(moves)


def changes_of(scores: Tensor, values: Tensor, increments: Tensor) -> list[list[arb]]:
    """The exact response of every row of a batch."""
    rows = zip(scores, values, increments, strict=True)
    return [change_of(v, *exact_probs(s, d)) for s, v, d in rows]


def allowed(values: Tensor) -> float:
    return ROUNDINGS * torch.finfo(values.dtype).eps * float(values.abs().max())


def change_of(values: Tensor, before: list[arb], after: list[arb]) -> list[arb]:
    columns = [[arb(float(v)) for v in column] for column in values.T]
    parts = [(q - p) for p, q in zip(before, after, strict=True)]
    return [sum((w * v for w, v in zip(parts, column, strict=True)), arb(0)) for column in columns]


def far(computed: Tensor, exact: list[arb]) -> float:
    """The largest distance, rounded upwards."""
    gaps = [abs(arb(float(x)) - y) for x, y in zip(computed.flatten(), exact, strict=True)]
    return max(float(gap.upper()) for gap in gaps)


def farthest(computed: Tensor, exact: list[list[arb]]) -> float:
    """The largest distance of any row."""
    return max(far(row, truth) for row, truth in zip(computed, exact, strict=True))


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_response_loses_no_digit(dtype: torch.dtype) -> None:
    for scores, values, increments in edits(dtype):
        exact = changes_of(scores, values, increments)
        readout = fc.freeze(scores, values)
        assert farthest(fc.finite_response(readout, increments), exact) <= allowed(values)
        tracked = fc.finite_response(
            fc.freeze(fc.track(scores), fc.track(values)), fc.track(increments)
        )
        for row, truth in zip(tracked, exact, strict=True):
            assert far(fc.value_of(row), truth) <= float(fc.error_of(row).max()) < 1e-3


@pytest.mark.parametrize("dtype", DTYPES)
def test_sparse_edits_lose_no_digit(dtype: torch.dtype) -> None:
    """The last key is the rest: it has no increment."""
    for scores, values, full in edits(dtype):
        increments = full.clone()
        increments[:, -1] = 0
        exact = changes_of(scores, values, increments)
        members = increments[:, None, :-1]
        groups = fc.prepare(fc.freeze(scores, values), torch.arange(5)[None])
        assert farthest(groups.response(members), exact) <= allowed(values)
        spans = fc.prepare_spans(fc.read_bank(scores, values), torch.tensor([0]), 5)
        assert farthest(spans.response(members), exact) <= allowed(values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_light_groups_that_leave_cost_no_digit(dtype: torch.dtype) -> None:
    """The quotient's way to the deletion: every group holds less than half of the mass."""
    for size in sizes(dtype):
        scores, values = draw(6, seed=1, dtype=dtype) / 4, draw(6, 2, seed=7, dtype=dtype)
        increments = torch.zeros(6, dtype=dtype)
        increments[:2] = torch.tensor([-size, 0.5], dtype=dtype)
        groups = fc.prepare(fc.freeze(scores, values), torch.tensor([[0, 1]]))
        assert groups.heavy is None
        exact = change_of(values, *exact_probs(scores, increments))
        assert far(groups.response(increments[None, :2]), exact) <= allowed(values)


def returns(dtype: torch.dtype) -> Edits:
    """A key that its score had masked, brought back to a stated distance from the others."""
    places = list(itertools.product(sizes(dtype)[1:], (-5.0, 0.0, 3.0)))
    size, place = torch.tensor(places, dtype=torch.float64).T
    scores = draw(4, seed=3, dtype=dtype).repeat(len(places), 1)
    scores[:, 1], increments = (place - size).to(dtype), torch.zeros_like(scores)
    increments[:, 1] = size.to(dtype)
    return scores + 2, draw(4, 2, seed=7, dtype=dtype).repeat(len(places), 1, 1), increments


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_key_that_its_score_had_masked_comes_back_without_loss(dtype: torch.dtype) -> None:
    scores, values, increments = returns(dtype)
    exact = changes_of(scores, values, increments)
    readout, members = fc.freeze(scores, values), increments[:, None, :3]
    groups = fc.prepare(readout, torch.arange(3)[None])
    spans = fc.prepare_spans(fc.read_bank(scores, values), torch.tensor([0]), 3)
    for name, response in {
        "finite_response": fc.finite_response(readout, increments),
        "prepare": groups.response(members),
        "prepare_spans": spans.response(members),
        "prepare_singles": fc.prepare_singles(readout).response(increments)[:, 1],
    }.items():
        assert farthest(response, exact) <= allowed(values), name
    tracked = fc.finite_response(
        fc.freeze(fc.track(scores), fc.track(values)), fc.track(increments)
    )
    for row, truth in zip(tracked, exact, strict=True):
        assert far(fc.value_of(row), truth) <= float(fc.error_of(row).max()) < 1e-3


@pytest.mark.parametrize("dtype", DTYPES)
def test_bands_meet_at_a_key_that_the_first_one_brings_back(dtype: torch.dtype) -> None:
    scores, values, increments = returns(dtype)
    second = draw(4, seed=9, dtype=dtype)
    computed = fc.band_interaction(fc.freeze(scores, values), increments, second)
    nothing = fc.band_interaction(fc.freeze(scores, values), increments, torch.zeros_like(second))
    assert float(nothing.abs().max()) <= allowed(values)
    for row, s, v, d in zip(computed, scores, values, increments, strict=True):
        both = [
            arb(float(x)) + arb(float(y)) + arb(float(z))
            for x, y, z in zip(s, d, second, strict=True)
        ]
        joint = change_of(v, exact_probs(s, d)[0], softmax(both))
        parts = [change_of(v, *exact_probs(s, edit)) for edit in (d, second)]
        exact = [x - y - z for x, y, z in zip(joint, *parts, strict=True)]
        assert far(row, exact) <= 4 * allowed(values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_divergence_is_a_number_where_log_ratios_are_beyond_the_largest(dtype: torch.dtype):
    most = torch.finfo(dtype).max
    scores = torch.tensor([0.0, -2.0, 1.0], dtype=dtype)
    increments = torch.tensor([most, -most / 2, 0.0], dtype=dtype)
    before, after = exact_probs(scores, increments)
    truth = sum((p * (p / q).log() for p, q in zip(before, after, strict=True)), arb(0))
    computed = fc.divergence(fc.freeze(scores, torch.eye(3, dtype=dtype)), increments)
    assert far(computed / most, [truth / arb(most)]) <= ROUNDINGS * torch.finfo(dtype).eps


@pytest.mark.parametrize("dtype", DTYPES)
def test_single_keys_lose_no_digit(dtype: torch.dtype) -> None:
    for scores, values, increments in edits(dtype):
        computed = fc.prepare_singles(fc.freeze(scores, values)).response(increments)
        for key in range(6):
            alone = torch.where(torch.arange(6) == key, increments, 0.0)
            exact = changes_of(scores, values, alone)
            assert farthest(computed[:, key], exact) <= allowed(values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_log_ratio_divergence_and_total_variation_are_within_their_bounds(
    dtype: torch.dtype,
) -> None:
    for scores, values, increments in edits(dtype):
        readout = fc.freeze(fc.track(scores), fc.track(values))
        edit = fc.track(increments)
        variations, ratios, divergences = (
            function(readout, edit)
            for function in (fc.total_variation, fc.log_ratio, fc.divergence)
        )
        assert float(fc.error_of(variations).max()) < 1e-5
        for row, (s, d) in enumerate(zip(scores, increments, strict=True)):
            pairs = list(zip(*exact_probs(s, d), strict=True))
            variation = sum((abs(q - p) for p, q in pairs), arb(0)) / 2
            logarithms = [(q / p).log() for p, q in pairs]
            divergence = sum((p * (p / q).log() for p, q in pairs), arb(0))
            assert_within(variations[row], [variation])
            assert_within(ratios[row], logarithms)
            assert_within(divergences[row], [divergence])


def assert_within(tracked: Tensor, exact: list[arb]) -> None:
    """Every entry lies within its own bound."""
    entries = zip(
        fc.value_of(tracked).flatten(), fc.error_of(tracked).flatten(), exact, strict=True
    )
    assert all(abs(arb(float(x)) - truth) <= arb(float(e)) for x, e, truth in entries)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_response_tends_to_the_deletion(dtype: torch.dtype) -> None:
    scores, values = draw(5, seed=1, dtype=dtype), draw(5, 3, seed=2, dtype=dtype)
    readout = fc.freeze(scores, values)
    for key in range(5):
        deleted = fc.prepare_singles(readout).deletion()[key]
        for size in sizes(dtype):
            increments = torch.zeros(5, dtype=dtype)
            increments[key] = -size
            gap = (fc.finite_response(readout, increments) - deleted).abs().max()
            assert float(gap) <= allowed(values)


@pytest.mark.parametrize("dtype", DTYPES)
def test_certificates_are_true_at_any_size(dtype: torch.dtype) -> None:
    gradient = torch.tensor([1.0, -2.0], dtype=dtype)
    for scores, values, increments in edits(dtype):
        certificate = fc.certify(
            fc.freeze(scores, values), increments, torch.zeros_like(values), gradient
        )
        exact = changes_of(scores, values, increments)
        for first, bound, (x, y) in zip(
            certificate.first_order, certificate.bound, exact, strict=True
        ):
            if math.isfinite(bound):
                assert abs(arb(float(first)) - (x - 2 * y)) <= arb(float(bound))


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_thousand_nearly_equal_keys_lose_no_digit_to_their_number(dtype: torch.dtype) -> None:
    """D = 1/N + …: what is left of the mass when all keys but one of many equal ones go."""
    keys = 4096
    increments = torch.zeros(keys, dtype=dtype)
    increments[0] = 20.0
    readout = fc.freeze(torch.zeros(keys, dtype=dtype), torch.ones(keys, 1, dtype=dtype))
    ratio = fc.log_ratio(readout, increments)
    normaliser = (arb(20).exp() + keys - 1) / keys
    for key, exact in ((0, 20 - normaliser.log()), (1, -normaliser.log())):
        gap = float(abs(arb(float(ratio[key])) - exact).upper())
        assert gap <= ROUNDINGS * torch.finfo(dtype).eps * abs(float(exact.mid()))


def test_minus_infinity_is_refused_with_the_way_to_a_deletion() -> None:
    readout, edit = fc.freeze(draw(3), draw(3, 2)), torch.tensor([-torch.inf, 0.0, 0.0]).double()
    singles, groups = fc.prepare_singles(readout), fc.prepare(readout, torch.tensor([[0, 1, 2]]))
    for call in (
        lambda: fc.finite_response(readout, edit),
        lambda: fc.band_interaction(readout, edit, edit),
        lambda: fc.certify(readout, edit, torch.zeros(3, 2).double(), torch.ones(2).double()),
        lambda: singles.response(edit),
        lambda: groups.response(edit[None]),
        lambda: groups.divergence(edit[None]),
    ):
        with pytest.raises(ValueError, match="To take a key out use a large negative number"):
            call()
