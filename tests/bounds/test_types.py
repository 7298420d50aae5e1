"""Operations that also convert, many terms, what may be tracked, and settings of torch that void a bound."""

import copy
import math
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import flint
import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus import _sum_rules
from finite_calculus.rotary import sin_minus_angle
from proofs.references.numbers import arb_precision
from tests.helpers.exact_bounds import F32, F64, both, exact
from tests.helpers.tensors import draw


@pytest.mark.parametrize(("source", "target"), [(F64, F32), (F32, F64), (F32, F32)])
@pytest.mark.parametrize("terms", [1, 2, 300])
def test_a_sum_in_another_type_is_within_its_bound(
    terms: int, source: torch.dtype, target: torch.dtype
):
    x = draw(terms, 4, dtype=source) * 1e-3 + 1 / 3
    sums = fc.track(x).sum(0, dtype=target)
    assert sums.dtype is target
    assert torch.equal(fc.value_of(sums), x.sum(0, dtype=target))
    for column in range(4):
        gap = abs(sum(exact(x[:, column])) - exact(sums)[column])
        assert gap <= exact(fc.error_of(sums))[column]


@pytest.mark.parametrize("call", [lambda x: x.softmax(-1, F32), lambda x: x.softmax(-1, dtype=F32)])
def test_a_softmax_in_another_type_is_within_its_bound(call: Callable[[Tensor], Tensor]):
    x = 30 + draw(20, 5)
    probs = call(fc.track(x))
    assert torch.equal(fc.value_of(probs), call(x))
    with arb_precision(200):
        for row, values, bounds in zip(
            x.tolist(), fc.value_of(probs).tolist(), fc.error_of(probs).tolist(), strict=True
        ):
            weights = [flint.arb(score).exp() for score in row]
            total = sum(weights, flint.arb(0))
            for weight, value, bound in zip(weights, values, bounds, strict=True):
                assert abs(flint.arb(value) - weight / total) <= flint.arb(bound)


def test_a_norm_in_another_type_is_within_its_bound():
    x = draw(300, dtype=F32)
    norm = torch.linalg.vector_norm(fc.track(x), dtype=F64)
    assert norm.dtype is F64
    with arb_precision(200):
        true = sum((flint.arb(number) ** 2 for number in x.tolist()), flint.arb(0)).sqrt()
        assert abs(flint.arb(norm.item()) - true) <= flint.arb(float(fc.error_of(norm)))


@pytest.mark.parametrize(
    "call",
    [
        lambda x: torch.sum(x, 0, out=torch.empty(4, dtype=F64)),
        lambda x: torch.exp(x, out=torch.empty(4, 4, dtype=F64)),
        lambda x: torch.matmul(x, x, out=torch.empty(4, 4, dtype=F64)),
        lambda x: torch.cat([x, x], out=torch.empty(8, 4, dtype=F64)),
        lambda x: torch.amax(x, 0, out=torch.empty(4, dtype=F64)),
        lambda x: x.view(F32),
        lambda x: torch.linalg.vector_norm(x, ord=1),
        lambda x: torch.linalg.vector_norm(x, math.inf),
    ],
)
def test_an_operation_that_writes_elsewhere_or_means_something_else_has_no_rule(call: Callable):
    with pytest.raises(TypeError, match="has no error rule"):
        call(fc.track(draw(4, 4)))


def test_from_as_many_terms_as_there_are_units_in_one_no_bound_is_known():
    count = torch.tensor([2.0**24 - 1, 2.0**24, 2.0**25], dtype=F64)
    growth = _sum_rules._growth(count, F32)
    assert growth.tolist() == [2.0**24 - 1, math.inf, math.inf]
    terms = torch.ones(1).expand(2**24 + 2)
    assert float(fc.error_of(fc.track(terms).sum())) == math.inf
    assert float(fc.error_of(torch.dot(fc.track(terms), fc.track(terms)))) == math.inf
    assert float(fc.error_of(torch.linalg.vector_norm(fc.track(terms)))) == math.inf
    assert fc.error_of(torch.softmax(fc.track(terms), -1)).isinf().all()


def test_a_vanished_exponential_moves_with_its_argument():
    # e^-800 is zero in float64 and e^-110 in float32; what they stand for may be far larger.
    for x, error, dtype in ((-800.0, 100.0, F64), (-110.0, 20.0, F32), (-104.0, 0.5, F32)):
        moved = torch.exp(fc.track(torch.tensor([x], dtype=dtype), torch.tensor([error])))
        assert fc.value_of(moved).tolist() == [0.0]
        assert float(fc.error_of(moved)) >= math.exp(x + error)


@both
def test_the_lag_of_a_sine_moves_less_than_its_small_angle(dtype):
    angle, error = torch.tensor([1e-3], dtype=dtype), torch.tensor([1e-5], dtype=F64)
    lag = sin_minus_angle(fc.track(angle, error))
    with arb_precision(200):
        x, e = flint.arb(angle.item()), flint.arb(1e-5)
        moved = abs(((x + e).sin() - (x + e)) - (x.sin() - x))
        budget = flint.arb(4 * torch.finfo(dtype).eps * 1e-9)
        assert moved <= flint.arb(float(fc.error_of(lag))) <= 1.1 * moved + budget


def test_an_infinite_term_absorbs_the_other():
    x = fc.track(torch.tensor([-math.inf, 1.0], dtype=F64), torch.tensor([0.0, 0.5], dtype=F64))
    assert fc.error_of(x + 0.1)[0] < 1e-300
    assert fc.error_of(torch.exp(x - 3))[0] < 1e-300
    assert fc.error_of(x - x)[0] == math.inf


def test_what_is_tracked_twice_keeps_its_error():
    once = fc.track(draw(3), torch.tensor([0.5, 0.0, 2.0], dtype=F64))
    assert fc.error_of(fc.track(once)).tolist() == [0.5, 0.0, 2.0]
    assert fc.error_of(fc.track(once, torch.ones(3))).tolist() == [1.5, 1.0, 3.0]
    assert fc.error_of(fc.track(once, 0.25)).tolist() == [0.75, 0.25, 2.25]
    assert fc.error_of(once).tolist() == [0.5, 0.0, 2.0]


@pytest.mark.parametrize(
    "repeat", [copy.copy, copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))]
)
def test_copies_and_pickles_keep_their_error(repeat: Callable[[Tensor], Tensor]):
    x = fc.track(draw(3), torch.tensor([0.5, 0.0, 2.0], dtype=F64))
    again = repeat(x)
    assert again is not x
    assert torch.equal(fc.value_of(again), fc.value_of(x))
    assert torch.equal(fc.error_of(again), fc.error_of(x))


@pytest.mark.parametrize("error", [-1e-30, math.nan, [0.0, 1.0, -1.0]])
def test_an_error_is_never_negative(error):
    with pytest.raises(ValueError, match="`error` must hold bounds of at least 0; got -"):
        fc.track(draw(3), torch.as_tensor(error, dtype=F64))


def test_an_error_has_a_bound_for_every_entry():
    with pytest.raises(ValueError, match=r"`error` must broadcast .* \(3,\); got \(2,\)"):
        fc.track(draw(3), torch.zeros(2, dtype=F64))
    assert fc.error_of(fc.track(draw(3), torch.ones(1))).tolist() == [1.0] * 3


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.complex128])
def test_only_float32_and_float64_are_tracked(dtype: torch.dtype):
    with pytest.raises(TypeError, match="`tensor` must be float64 or float32; got torch"):
        fc.track(torch.ones(3, dtype=dtype))
    if dtype is torch.int64:
        assert not isinstance(fc.track(torch.ones(3)).to(dtype), fc.Tracked)
    else:
        with pytest.raises(TypeError, match="`tensor` must be float64 or float32; got torch"):
            fc.track(torch.ones(3)).to(dtype)


@contextmanager
def flushed() -> Iterator[None]:
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor cannot flush subnormal numbers")
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def test_no_bound_is_given_while_subnormal_numbers_are_flushed():
    x = fc.track(draw(4))
    readout, edits = fc.freeze(draw(4), draw(4, 2)), (draw(4), draw(4, 2), draw(2))
    certificate = fc.certify(readout, *edits)
    with flushed():
        for call in (
            lambda: fc.track(draw(4)),
            lambda: x + x,
            lambda: fc.certify(readout, *edits),
            lambda: fc.certified_order(certificate),
        ):
            with pytest.raises(RuntimeError, match=r"Subnormal numbers must be kept.*set_flush"):
                call()
        fc.finite_response(readout, edits[0])
    assert fc.certify(readout, *edits).bound == certificate.bound


def test_float32_is_refused_under_autocast_and_float64_unchanged():
    inputs = draw(3), draw(4, 3), draw(4, 2)
    narrow = [x.float() for x in inputs]
    tracked = fc.track(narrow[1])
    plain = fc.effective_weights(*inputs)
    with torch.autocast("cpu"):
        assert torch.equal(fc.effective_weights(*inputs).output, plain.output)
        for call in (
            lambda: fc.effective_weights(*narrow),
            lambda: fc.track(narrow[0]),
            lambda: tracked @ tracked.mT,
            lambda: fc.freeze(narrow[0], narrow[1].mT),
        ):
            with pytest.raises(RuntimeError, match=r"Autocast must be off.*enabled=False"):
                call()
        with torch.autocast("cpu", enabled=False):
            assert fc.effective_weights(*narrow).output.dtype is F32


@pytest.mark.parametrize("precision", ["high", "medium"])
def test_no_bound_is_given_for_float32_products_of_lower_precision(precision: str):
    torch.set_float32_matmul_precision(precision)
    try:
        with pytest.raises(RuntimeError, match=f"full precision.*got '{precision}'.*'highest'"):
            fc.track(torch.ones(2))
        fc.track(torch.ones(2, dtype=F64))
    finally:
        torch.set_float32_matmul_precision("highest")


def prepared_outside() -> dict[str, Callable[[], object]]:
    """Functions of float32 objects that were made before autocast began."""
    scores, values = torch.tensor([4.0, 0.0, 1.0, -1.0]), draw(4, 3, dtype=torch.float32)
    readout, bank = fc.freeze(scores, values), fc.read_bank(scores, values)
    features, step = draw(4, 2, dtype=torch.float32), torch.zeros(1, 2)
    weights = fc.effective_weights(draw(2, dtype=torch.float32), features, values)
    heavy, removed = torch.tensor([[0, 1]]), torch.tensor([[True, False, True, False]])
    return {
        "prepare": lambda: fc.prepare(readout, heavy).response(step),
        "prepare_spans": lambda: fc.prepare_spans(bank, torch.tensor([0]), 2).deletion(),
        "deletion_response": lambda: fc.deletion_response(readout, removed),
        "deletion_jacobian": lambda: fc.deletion_jacobian(readout, removed),
        "EffectiveWeights.output": lambda: weights.output,
        "unit_gradient_step": lambda: fc.unit_gradient_step(weights),
    }


@pytest.mark.parametrize("name", prepared_outside())
def test_autocast_does_not_reach_products_of_what_was_made_before_it(name: str):
    call = prepared_outside()[name]
    call()
    with (
        torch.autocast("cpu", dtype=torch.bfloat16),
        pytest.raises(RuntimeError, match="Autocast must be off for float32"),
    ):
        call()
