"""Orders of summation are revealed as they are, and the roundings of any of them stay within their bounds."""

import math

import numpy as np
import pytest
import torch

from finite_calculus.models.kernels import Kernels
from finite_calculus.models.sum_order import Order, Spread, any_order_spread, sum_spread
from finite_calculus.models.sum_probe import FACTOR, reveal_orders
from finite_calculus.models.sum_replay import replayed_sums

THREADS = torch.get_num_threads()


def in_turn(terms):
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def in_lanes(terms, lanes=3):
    """Every third term apart, then the three sums."""
    return in_turn([in_turn(terms[start::lanes]) for start in range(lanes)])


def in_halves(terms):
    half = len(terms) // 2
    return terms[0] if len(terms) == 1 else in_halves(terms[:half]) + in_halves(terms[half:])


def backwards(terms):
    return in_turn(terms[::-1])


def rounded_products(add):
    return lambda left: add(list((left * FACTOR).mT)).unsqueeze(-1)


def fused(left):
    """A product is added before anything is rounded; float64 holds both exactly."""
    total = torch.zeros(left.shape[0])
    for column in left.mT:
        total = (total.double() + column.double() * FACTOR).float()
    return total.unsqueeze(-1)


def fused_backwards(left):
    """The last product is rounded, and the first of the terms is added last."""
    return fused(left.flip(-1))


def in_double(left):
    """Nothing is rounded before the end."""
    return (left.double() * FACTOR).sum(-1, keepdim=True).float()


ALL = tuple(range(7))
CASES = {
    "in turn": (rounded_products(in_turn), Order(ALL, ALL)),
    "backwards": (rounded_products(backwards), Order((0, (1, (2, (3, (4, (5, 6)))))), ALL)),
    "in lanes": (rounded_products(in_lanes), Order((0, 3, 6, (1, 4), (2, 5)), ALL)),
    "in halves": (rounded_products(in_halves), Order((0, (1, 2), ((3, 4), (5, 6))), ALL)),
    "fused": (fused, Order(ALL, (0,))),
    "fused backwards": (fused_backwards, Order((0, (1, (2, (3, (4, (5, 6)))))), (6,))),
}


def nested(chain):
    """A chain without regard to which of two summands comes first."""
    if isinstance(chain, int):
        return chain
    total = nested(chain[0])
    for item in chain[1:]:
        total = frozenset([total, nested(item)])
    return total


@pytest.mark.parametrize("case", CASES)
def test_the_order_of_a_sum_is_revealed(case: str):
    sums, expected = CASES[case]
    (order,) = reveal_orders(sums, 7)
    assert nested(order.chain) == nested(expected.chain)
    assert set(expected.rounded) <= set(order.rounded)
    assert (len(order.rounded) < 7) == case.startswith("fused")


def test_places_with_orders_of_their_own_give_one_order_each():
    def sums(left):
        return torch.cat([rounded_products(add)(left) for add in (in_turn, in_lanes, in_turn)], -1)

    assert {nested(order.chain) for order in reveal_orders(sums, 7)} == {
        nested(CASES[case][1].chain) for case in ("in turn", "in lanes")
    }


def test_a_sum_without_roundings_has_no_order():
    def exact(left):
        return torch.tensor([[math.fsum(row)] for row in (left.double() * FACTOR).tolist()])

    assert reveal_orders(exact, 7) is None


def test_sums_that_round_less_than_their_order_says_have_none():
    """Float64 swallows the same numbers, and is no kernel whose roundings could be formed again."""
    assert reveal_orders(in_double, 7) is None


def hard_terms(draw: torch.Generator, shape: tuple[int, ...]) -> torch.Tensor:
    """Factors of all sizes and signs, whose sums cancel."""
    sizes = torch.exp2(torch.randint(-12, 12, shape, generator=draw).float())
    return sizes * torch.randn(shape, generator=draw)


@pytest.mark.parametrize("case", CASES)
def test_roundings_in_a_known_order_stay_within_the_bound_and_near_it(case: str):
    sums, _ = CASES[case]
    left = hard_terms(torch.Generator().manual_seed(3), (4000, 7))
    terms = left.double() * FACTOR
    spread = sum_spread(terms, reveal_orders(sums, 7))
    apart = (sums(left).squeeze(-1).double() - terms.sum(-1)).abs()
    assert bool((apart <= spread.sure).all())
    assert bool((apart <= spread.probable).all())
    assert float((apart / spread.sure).max()) > 1 / 4


@pytest.mark.parametrize("case", CASES)
def test_a_sum_is_replayed_to_the_last_bit_in_its_own_order_alone(case: str):
    sums, _ = CASES[case]
    left = hard_terms(torch.Generator().manual_seed(5), (4000, 7))
    right = torch.full((7,), FACTOR)
    native = sums(left).squeeze(-1).double()
    for other, (their_sums, _) in CASES.items():
        least, most = replayed_sums(left, right, reveal_orders(their_sums, 7))
        assert torch.equal(least, most)
        assert torch.equal(least, native) == (other == case)
    least, most = replayed_sums(
        left,
        right,
        [order for their_sums, _ in CASES.values() for order in reveal_orders(their_sums, 7)],
    )
    assert bool(((least <= native) & (native <= most)).all())


def test_a_fused_addition_is_rounded_once():
    """1 + 2^−23 and 2^−24 − 2^−70: float64 takes the sum to a midpoint, whose even neighbour is wrong."""
    left = torch.tensor([1 + 2.0**-23, 2.0**-24 * (1 + 2.0**-23)])
    right = torch.tensor([1.0, 1 - 2.0**-23])
    for sign in (1, -1):
        least, most = replayed_sums(sign * left, right, [Order((0, 1), (0,))])
        assert float(least) == float(most) == sign * (1 + 2.0**-23)
    least, _ = replayed_sums(left, right, [Order((0, 1), (0, 1))])
    assert float(least) == 1 + 2.0**-22


def test_nothing_is_known_of_a_sum_that_overflows():
    left = torch.tensor([2.0**127, 2.0**127, 1.0])
    least, most = replayed_sums(left, torch.ones(3), [Order((0, 1, 2), (0, 1, 2))])
    assert (float(least), float(most)) == (-math.inf, math.inf)


def test_the_bound_of_one_order_does_not_hold_for_another():
    left = torch.tensor([[2.0**24, 1, 1, 1, 1, 1, -(2.0**24)]])
    terms = left.double() * FACTOR
    apart = (rounded_products(in_turn)(left).squeeze(-1).double() - terms.sum(-1)).abs()
    (order,) = reveal_orders(rounded_products(in_turn), 7)
    kinder = Order((1, 2, 3, 4, 5, (0, 6)), ALL)
    assert (
        float(sum_spread(terms, [kinder]).sure)
        < float(apart)
        <= float(sum_spread(terms, [order]).sure)
    )
    anything = any_order_spread(terms.abs().sum(-1), terms.square().sum(-1), 7)
    assert float(apart) <= float(anything.sure)


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 17])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("linear", [False, True])
def test_projections_round_within_the_bound_of_their_probed_orders(rows, bias, linear):
    inputs, outputs = 72, 40
    draw = torch.Generator().manual_seed(rows)
    kernels = Kernels(rows, linear, True, THREADS)
    orders = kernels.write_orders(inputs, outputs, bias=bias or not linear)
    assert orders is not None
    x, weight = hard_terms(draw, (rows, inputs)), hard_terms(draw, (outputs, inputs))
    shift = hard_terms(draw, (outputs,)) if bias else torch.zeros(outputs)
    if linear:
        native = torch.nn.functional.linear(x.unsqueeze(1), weight, shift if bias else None)
        native = native.squeeze(1)
    else:
        native = torch.addmm(shift, x, weight.mT.contiguous())
    for row in range(rows):
        terms = weight.double() * x[row].double()
        if bias or not linear:
            terms = torch.cat([terms, shift.double().unsqueeze(-1)], -1)
        apart = (native[row].double() - terms.sum(-1)).abs()
        assert bool((apart <= sum_spread(terms, orders).sure).all())


@pytest.mark.parametrize(("rows", "keys"), [(1, 5), (2, 33), (8, 20)])
def test_products_of_heads_round_within_the_bound_of_their_probed_orders(rows, keys):
    heads, width = 6, 12
    draw = torch.Generator().manual_seed(keys)
    kernels = Kernels(rows, True, False, THREADS)
    query, bank = hard_terms(draw, (rows, heads, 1, width)), hard_terms(draw, (keys, width))
    orders = kernels.score_orders(heads, heads, keys, width)
    terms = query.double() * bank.double()
    for layout in (
        bank.expand(rows, heads, keys, width),
        bank.expand(rows, heads, keys, width).contiguous(),
        bank.unsqueeze(1).expand(rows, keys, heads, width).contiguous().transpose(1, 2),
    ):
        native = torch.matmul(query, layout.mT).squeeze(2).double()
        apart = (native - terms.sum(-1)).abs()
        assert bool((apart <= sum_spread(terms, orders).sure).all())
        each = [replayed_sums(query, layout, [order])[0] for order in orders]
        assert bool(torch.stack([native == sums for sums in each]).any(0).all())
    probs = torch.softmax(torch.randn(rows, heads, 1, keys, generator=draw), -1)
    native = torch.matmul(probs, bank.expand(rows, heads, keys, width).contiguous()).squeeze(2)
    terms = probs.squeeze(2).unsqueeze(-2).double() * bank.mT.double()
    orders = kernels.mixture_orders(heads, heads, keys, width)
    apart = (native.double() - terms.sum(-1)).abs()
    assert bool((apart <= sum_spread(terms, orders).sure).all())


def test_what_is_too_large_or_elsewhere_has_no_known_order():
    assert Kernels(64, True, True, THREADS).write_orders(2**11, 2**11, bias=False) is None
    assert Kernels(64, True, True, THREADS).score_orders(2**6, 1, 2**9, 2**7) is None
    projection = torch.nn.Linear(4, 4, device="meta")
    assert Kernels.of(projection, 8, packed=True) is None
    assert Kernels.of(torch.nn.Identity(), 8, packed=True) is None


def test_a_patch_belongs_to_its_row_and_not_to_the_control():
    kernels = Kernels.of(torch.nn.Linear(4, 4), 3, packed=True)
    assert kernels is not None
    edited = kernels.patched(torch.tensor([2, 5, 9]), 9)
    assert (edited.patch, edited.touched, edited.control.touched) == (3, (2, 5), ())


def test_a_probable_bound_is_exceeded_as_rarely_as_it_says():
    draw = np.random.default_rng(5)
    roundings = torch.from_numpy(draw.uniform(0, 1, (1, 200)))
    signs = torch.from_numpy(draw.choice([-1.0, 1.0], (100000, 200)))
    spread = Spread.of(roundings).summed(-1)
    sums = (signs * roundings).sum(-1).abs()
    assert float(sums.max()) <= float(spread.probable) < float(spread.sure)
    # Nor is it far beyond what turns up: 1e5 draws come within two of its 6.5 deviations.
    assert float(sums.max()) > float(spread.probable) / 2
