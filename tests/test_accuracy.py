"""Every public function against its reference: no error exceeds its derived bound."""

import importlib
import inspect
import pkgutil
from dataclasses import replace

import jaxtyping
import pytest
from hypothesis import given, settings, strategies as st
from torch import Tensor

import finite_calculus as fc
from finite_calculus import sparse
from proofs import references
from proofs.numeric.cases import Batch
from proofs.numeric.checks import CHECKS, builder, checks_of
from proofs.numeric.comparison import ReferenceComparison, run, tracked
from proofs.numeric.comparisons import COMPARISONS
from tests.helpers.regimes import without_cases
from tests.helpers.strategies import STRATEGIES

BATCHED = [name for name, comparison in COMPARISONS.items() if comparison.batched]
# Nothing is computed by these: error bounds themselves, and what tests/test_rounding.py covers.
MACHINERY = {"track", "error_of", "value_of", "upper"}


def cases_of(name: str, dtype: str) -> st.SearchStrategy[Batch]:
    """The adversarial cases of a comparison."""
    return STRATEGIES[COMPARISONS[name].draw.__name__](dtype)


@pytest.fixture(autouse=True, scope="module")
def _as_in_production():
    """Shape checks cost more than the computations here, and other tests run with them."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", COMPARISONS)
@settings(max_examples=15)
@given(data=st.data())
def test_computed_values_lie_within_their_bounds(name: str, dtype: str, data) -> None:
    batch = data.draw(cases_of(name, dtype))
    samples = list(COMPARISONS[name].measure(batch))
    assert len(samples) == len(batch)
    assert all(sample.over_bound <= 1 for sample in samples)


@pytest.mark.parametrize("name", BATCHED)
@settings(max_examples=2)
@given(data=st.data())
def test_a_batch_of_no_cases_has_no_results(name: str, data) -> None:
    batch = without_cases(data.draw(cases_of(name, "float64")))
    result = COMPARISONS[name].compute(tracked(batch.joined()))
    parts = [result] if isinstance(result, Tensor) else vars(result).values()
    assert all(part.shape[0] == 0 for part in parts)


def test_every_draw_of_a_comparison_has_a_strategy() -> None:
    draws = {comparison.draw.__name__ for comparison in COMPARISONS.values()}
    assert draws <= STRATEGIES.keys()


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CHECKS)
def test_seeded_adversarial_cases_hold(name: str, dtype: str) -> None:
    outcome = run(CHECKS[name], dtype, 24, seed=1000)
    assert outcome.violations == 0, f"replay {outcome.worst}"
    assert outcome.cases == 24


def test_every_public_function_has_a_check() -> None:
    functions = {name for name, item in vars(fc).items() if inspect.isfunction(item)}
    unchecked = {name for name in functions - MACHINERY if not checks_of(name)}
    assert not unchecked


def test_every_check_names_a_public_function() -> None:
    assert not {name for name in CHECKS if not hasattr(fc, builder(name))}


def test_references_do_not_depend_on_the_torch_core() -> None:
    for info in pkgutil.iter_modules(references.__path__):
        module = importlib.import_module(f"proofs.references.{info.name}")
        assert "torch" not in vars(module)
        assert "finite_calculus" not in inspect.getsource(module)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "name", ["PreparedGroups.response", "prepare_spans.response", "restoration_response"]
)
def test_a_heavy_drift_of_the_wrong_sign_is_a_violation(monkeypatch, name: str, dtype: str) -> None:
    sound = sparse._with_rest

    def flipped(prepared: fc.PreparedGroups) -> fc.PreparedGroups:
        prepared = sound(prepared)
        assert prepared.heavy is not None
        return replace(prepared, heavy=replace(prepared.heavy, drift=-prepared.heavy.drift))

    monkeypatch.setattr(sparse, "_with_rest", flipped)
    assert run(CHECKS[name], dtype, 40).violations > 0


def test_a_wrong_formula_is_a_violation() -> None:
    sound = COMPARISONS["finite_response"]

    def without_renormalisation(case):
        readout = fc.freeze(case["scores"], case["values"], mask=case["mask"])
        return fc.linear_response(readout, case["score_delta"])

    broken = ReferenceComparison(
        "finite_response", without_renormalisation, sound.reference, sound.draw
    )
    assert run(broken, "float64", 40).violations > 20
