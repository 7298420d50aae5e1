"""Every public function against its reference: no error exceeds its derived bound."""

import dataclasses
import importlib
import inspect
import os
import pkgutil

import jaxtyping
import pytest
from hypothesis import find, given, settings, strategies as st
from torch import Tensor

import finite_calculus as fc
from finite_calculus import sparse
from proofs import references
from proofs.numeric.cases import Batch
from proofs.numeric.checks import CHECKS, builder, checks_of
from proofs.numeric.comparison import ReferenceComparison, run, tracked
from proofs.numeric.comparisons import COMPARISONS
from tests.helpers.found_cases import inputs_of, save, saved, violation
from tests.helpers.property_strategies import PROPERTY_STRATEGIES
from tests.helpers.regimes import without_cases
from tests.helpers.strategies import STRATEGIES

BATCHED = [name for name, comparison in COMPARISONS.items() if comparison.batched]
# Nothing is computed by these: error bounds themselves, and what tests/test_rounding.py covers.
MACHINERY = {"track", "error_of", "value_of", "upper"}


CASES = STRATEGIES | PROPERTY_STRATEGIES
# Draws whose arguments do not hang together, so that each is drawn or left out on its own.
PICKED = {
    "bank", "wide_bank", "full_bank", "rotary", "projected", "projections", "generators", "affine", "episode",
}  # fmt: skip
# A run that draws new cases keeps those that break a check.
KEEPS = os.environ.get("HYPOTHESIS_PROFILE") == "nightly"


def cases_of(name: str, dtype: str) -> st.SearchStrategy[Batch]:
    """The adversarial cases of a check, with the arguments that it uses."""
    return CASES[CHECKS[name].draw.__name__](dtype, inputs_of(name))


@pytest.fixture(autouse=True, scope="module")
def _as_in_production():
    """Shape checks cost more than the computations here, and other tests run with them."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("name", CHECKS)
@given(data=st.data())
def test_computed_values_lie_within_their_bounds(name: str, dtype: str, data) -> None:
    batch = data.draw(cases_of(name, dtype))
    wrong = violation(name, batch)
    if wrong is not None and KEEPS:
        save(name, dtype, batch)
    assert wrong is None, wrong


def test_cases_that_once_broke_a_check_hold() -> None:
    broken = [words for name, _, batch in saved() if (words := violation(name, batch))]
    assert broken == []


@pytest.mark.parametrize("name", BATCHED)
@settings(max_examples=2)
@given(data=st.data())
def test_a_batch_of_no_cases_has_no_results(name: str, data) -> None:
    batch = without_cases(data.draw(cases_of(name, "float64")))
    result = COMPARISONS[name].compute(tracked(batch.joined()))
    parts = [result] if isinstance(result, Tensor) else vars(result).values()
    assert all(part.shape[0] == 0 for part in parts)


def test_every_draw_of_a_check_has_a_strategy() -> None:
    assert {check.draw.__name__ for check in CHECKS.values()} <= CASES.keys()


@settings(max_examples=1)
@given(data=st.data())
def test_only_arguments_in_use_are_drawn(data) -> None:
    for name, check in CHECKS.items():
        drawn = data.draw(cases_of(name, "float64"))
        names = drawn.each.keys() | drawn.shared.keys()
        assert inputs_of(name) <= names, name
        if check.draw.__name__ in PICKED:
            # Scores shape the increments that go with them.
            assert names <= inputs_of(name) | {"scores"}, name


def test_a_failure_shrinks_to_one_case_with_few_keys_and_says_all(monkeypatch, tmp_path) -> None:
    sound = COMPARISONS["finite_response"]

    def without_the_mean(case):
        readout = fc.freeze(case["scores"], case["values"], mask=case["mask"])
        return sound.compute(case) + 2.0**-40 * readout.output

    monkeypatch.setitem(
        CHECKS, "finite_response", dataclasses.replace(sound, compute=without_the_mean)
    )

    def breaks(batch: Batch) -> bool:
        return violation("finite_response", batch) is not None

    search = settings(max_examples=200, database=None, derandomize=True)
    batch = find(cases_of("finite_response", "float64"), breaks, settings=search)
    assert len(batch) == 1
    assert batch.each["scores"].shape[-1] <= 2
    words = violation("finite_response", batch) or ""
    for word in ("computed", "exact", "error", "bound", "scores = "):
        assert word in words
    save("finite_response", "float64", batch, tmp_path)
    ((name, dtype, again),) = saved(tmp_path)
    assert (name, dtype) == ("finite_response", "float64")
    assert violation(name, again) == words


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
        heavy = dataclasses.replace(prepared.heavy, drift=-prepared.heavy.drift)
        return dataclasses.replace(prepared, heavy=heavy)

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
