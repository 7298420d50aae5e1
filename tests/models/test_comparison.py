"""Predicted against executed: many outcomes at once are each compared as if alone."""

from dataclasses import replace

import pytest
import torch

import finite_calculus.models.comparison as comparison
from finite_calculus.models import (
    Execution,
    Odds,
    attach,
    compare_all,
    compare_locally,
)
from finite_calculus.models.bounds import readout_stages
from finite_calculus.models.edits import Edits, edited_bank
from native_checks.bench import battery

Executed = tuple[list[Edits], Execution]


@pytest.fixture(params=["resumed", "shared"])
def executed(request, tiny, ids) -> Executed:
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        edits = [edit for layer in capture.layers for edit in battery(layer, layer)]
        return edits, instrument.execute(capture, edits, batch=4, path=request.param)


def test_many_outcomes_are_compared_as_each_alone(executed: Executed):
    edits, execution = executed
    together = list(compare_all(edits, execution.outcomes))
    for edit, outcome, shared in zip(edits, execution.outcomes, together, strict=True):
        alone = compare_locally(edit, outcome)
        for one, other in ((shared.response, alone.response), (shared.write, alone.write)):
            assert torch.equal(one.executed, other.executed)
            assert torch.equal(one.predicted, other.predicted)
            assert torch.equal(one.bound, other.bound)


def test_rows_that_round_alike_share_the_bound_of_their_control(
    executed: Executed, monkeypatch: pytest.MonkeyPatch
):
    edits, execution = executed
    unedited = []

    def counting(layer, bank=None, **options):
        unedited.extend([layer] if bank is None else [])
        return readout_stages(layer, bank, **options)

    monkeypatch.setattr(comparison, "readout_stages", counting)
    list(compare_all(edits, execution.outcomes))
    layers = {outcome.layer.layer for outcome in execution.outcomes}
    assert len(layers) <= len(unedited) < len(edits)


@pytest.mark.parametrize("part", ["query", "keys", "values", "attended", "scaling"])
def test_a_control_that_differs_has_a_bound_of_its_own(tiny, ids, part: str):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        edit = Odds(1, (3,), 2.0)
        (outcome,) = instrument.execute(capture, [edit]).outcomes
    value = getattr(outcome.layer, part)
    changed = value & (torch.arange(len(ids)) > 0) if part == "attended" else value * 1.5
    other = replace(outcome, layer=replace(outcome.layer, **{part: changed}))
    _, second = compare_all([edit, edit], [outcome, other])
    assert torch.equal(second.write.bound, compare_locally(edit, other).write.bound)
    assert not torch.equal(second.write.bound, compare_locally(edit, outcome).write.bound)


def test_a_change_along_a_gradient_is_its_contraction(executed: Executed):
    edits, execution = executed
    outcome = execution.outcomes[0]
    write = compare_locally(edits[0], outcome).write
    gradient = outcome.layer.gradient_write.double()
    along = write.along(gradient)
    for contraction, terms in (
        (along.executed, gradient * write.executed),
        (along.predicted, gradient * write.predicted),
        (along.carried, gradient * write.carried),
        (along.rounding.sure, gradient.abs() * write.rounding.sure),
        (along.rounding.square, gradient.square() * write.rounding.square),
    ):
        # Two orders of summation, each off by at most n·u·Σ|terms|.
        allowed = len(terms) * torch.finfo(torch.float64).eps * float(terms.abs().sum())
        assert abs(float(contraction - terms.sum())) <= allowed
    assert abs(float(along.error)) <= float(along.bound)
    assert float(along.probable_bound) <= float(along.bound)


def test_bounds_that_share_untouched_keys_are_those_of_the_whole_bank(executed):
    edits, execution = executed
    for edit, outcome in zip(edits, execution.outcomes, strict=True):
        bank = edited_bank(outcome.layer, edit)
        known = {"kernels": outcome.kernels, "executed": outcome.output}
        control = readout_stages(
            outcome.layer, kernels=outcome.kernels, executed=outcome.control_output
        )
        whole = readout_stages(outcome.layer, bank, **known)
        shared = readout_stages(outcome.layer, bank, unedited=control, **known)
        native = outcome.kernels is None or outcome.kernels.patch is None
        moved = (bank.keys != outcome.layer.keys).any(-1).any(0)
        parts = [
            (products.values - products.spread.sure, products.values + products.spread.sure)
            for products in (whole.products, shared.products)
        ]
        (least, most), (least_shared, most_shared) = parts
        for all_keys, edited in zip(*parts, strict=True):
            assert torch.equal(all_keys[:, ~moved], edited[:, ~moved])
            assert not native or torch.equal(all_keys, edited)
        # On the shared path edited keys are multiplied apart: only the orders of that product count.
        assert bool((least <= least_shared).all())
        assert bool((most_shared <= most).all())
