"""Sure and probable bounds of executed writes: near the errors that occur, and exceeded by larger ones."""

from dataclasses import replace

import pytest
import torch

import finite_calculus.models.execute as execute
from finite_calculus.checkpoints import load
from finite_calculus.models import (
    LocalCheck,
    Outcome,
    QueryEdit,
    Replace,
    ScaleValues,
    attach,
    compare_all,
    compare_locally,
    edited_bank,
    local_error,
    output_error,
)
from finite_calculus.models.bounds import readout_stages
from finite_calculus.models.edits import Edits
from native_checks.bench import Bench
from native_checks.products import products_are_as_probed

PATHS = ("resumed", "shared")
Runs = list[tuple[Edits, Outcome]]


@pytest.fixture(scope="module")
def runs() -> dict[str, Runs]:
    """The battery of the preflight on the embedded checkpoint, on both paths."""
    model, _ = load("embedded")
    ids = torch.randint(3, 200, (24,), generator=torch.Generator().manual_seed(11))
    with attach(model) as instrument:
        bench = Bench(instrument, ids, 3, 5, 8)
        return {
            path: list(zip(bench.edits, getattr(bench, path).outcomes, strict=True))
            for path in PATHS
        }


@pytest.mark.parametrize("path", PATHS)
def test_no_bound_is_exceeded_and_the_median_is_at_most_a_hundred_errors(runs, path):
    entries: dict[str, list[torch.Tensor]] = {"response": [], "write": []}
    for edit, outcome in runs[path]:
        local = compare_locally(edit, outcome)
        for name, ratios in entries.items():
            agreement = getattr(local, name)
            assert bool((agreement.error.abs() <= agreement.probable_bound).all())
            assert bool((agreement.probable_bound <= agreement.bound).all())
            ratios.append((agreement.bound / agreement.error.abs()).reshape(-1))
        check = LocalCheck.of(local)
        assert check.within_bound
        assert check.likely
    for ratios in entries.values():
        assert float(torch.cat(ratios).median()) <= 100


@pytest.mark.parametrize("path", PATHS)
def test_replayed_products_explain_their_part_of_an_error(runs, path):
    """What is left of it keeps the bound of the other roundings alone, and is smaller more often than not."""
    smaller = []
    for local in compare_all(*zip(*runs[path], strict=True)):
        response = local.response
        left = (response.error - response.carried).abs()
        assert bool((left <= response.rounding.sure).all())
        if bool(response.carried.any()):
            smaller.append(float(left.norm()) < float(response.error.norm()))
    assert len(smaller) > len(runs[path]) / 2
    assert sum(smaller) > len(smaller) / 2


@pytest.mark.parametrize("path", PATHS)
def test_products_that_both_rows_share_cost_the_change_less_than_either(runs, path):
    """An edit of values alone leaves every q·k, whose roundings then almost cancel in the difference."""
    values = [run for run in runs[path] if isinstance(run[0], ScaleValues)]
    assert len(values) >= 4
    for edit, outcome in values:
        bank = edited_bank(outcome.layer, edit)
        before = readout_stages(
            outcome.layer, kernels=outcome.kernels, executed=outcome.control_output
        )
        after = readout_stages(
            outcome.layer, bank, kernels=outcome.kernels, executed=outcome.output, unedited=before
        )
        assert torch.equal(before.products.values, after.products.values)
        carried = compare_locally(edit, outcome).response.carried
        assert float(carried.norm()) < float(before.known.norm() + after.known.norm()) / 2


@pytest.mark.parametrize("path", PATHS)
def test_a_head_that_errs_a_hundred_times_as_much_is_seen(runs, path):
    """The median error of a head under all edits, times a hundred, in the direction of its own error."""
    comparisons = list(compare_all(*zip(*runs[path], strict=True)))
    failures = warnings = unaided = 0
    for (edit, outcome), local in zip(runs[path], comparisons, strict=True):
        errors = local.response.error.norm(dim=-1)
        head = int((errors - errors.median()).abs().argmin())
        if float(errors[head]) == 0:
            continue
        wrong = torch.zeros_like(local.response.error)
        wrong[head] = 99 * local.response.error[head]
        weight = outcome.layer.output_projection.double()
        seeded = replace(
            outcome,
            output=(outcome.output.double() + wrong).float(),
            write=(outcome.write.double() + torch.einsum("hv,hvm->m", wrong, weight)).float(),
        )
        after = compare_locally(edit, seeded)
        beyond = after.response.error.abs() > after.response.bound
        unlikely = after.response.error.abs() > after.response.probable_bound
        check = LocalCheck.of(after)
        assert check.within_bound <= (not bool(beyond.any()))
        assert check.likely <= (not bool(unlikely.any()))
        failures += not check.within_bound
        warnings += not check.likely
        # Where no order is known, less is seen.
        unknown = compare_locally(edit, replace(seeded, kernels=None))
        unaided += not LocalCheck.of(unknown).within_bound
    assert min(warnings, failures) > len(comparisons) * 3 / 4
    assert failures >= unaided


def test_a_wrong_y_does_not_excuse_a_wrong_write(runs):
    edit, outcome = runs["resumed"][0]
    wrong = torch.ones_like(outcome.output) * outcome.output.abs().max()
    write = torch.einsum("hv,hvm->m", wrong.double(), outcome.layer.output_projection.double())
    seeded = replace(outcome, output=outcome.output + wrong, write=outcome.write + write.float())
    local = compare_locally(edit, seeded)
    for part in (local.response, local.write):
        assert bool((part.error.abs() > part.bound).any())
    assert not LocalCheck.of(local).within_bound
    unreal = replace(outcome, output=torch.full_like(outcome.output, float("nan")))
    assert not LocalCheck.of(compare_locally(edit, unreal)).within_bound


def test_a_write_that_errs_alone_is_seen(runs):
    edit, outcome = runs["resumed"][0]
    local = compare_locally(edit, outcome)
    write = outcome.write.clone()
    write[5] += 2 * float(local.write.probable_bound[5])
    check = compare_locally(edit, replace(outcome, write=write)).write
    assert bool((check.error.abs() > check.probable_bound)[5])


def test_unknown_kernels_and_an_unknown_y_widen_the_bounds(runs):
    _, outcome = runs["resumed"][0]
    layer = outcome.layer
    known = local_error(layer, kernels=outcome.kernels, executed=outcome.control_output)
    guessed = local_error(layer, kernels=outcome.kernels)
    unknown = local_error(layer)
    assert bool((known.output <= guessed.output).all())
    assert float(known.write.norm()) < float(guessed.write.norm()) < float(unknown.write.norm())
    assert float(known.output.norm()) < float(unknown.output.norm())
    for error in (known, guessed, unknown):
        assert bool((error.probable_output <= error.output).all())
        assert bool((error.probable_write <= error.write).all())


def test_a_factor_on_a_whole_head_is_measured_and_excuses_no_single_entry(runs):
    """The rounded sum of a softmax scales all of y; an error as large at one entry is another matter."""
    _, outcome = runs["resumed"][0]
    layer, kernels = outcome.layer, outcome.kernels
    output, exact = outcome.control_output, layer.readout().output
    known = local_error(layer, kernels=kernels, executed=output)
    guessed = local_error(layer, kernels=kernels)
    assert float((known.output / guessed.output).median()) < 0.75
    scaled = output * (1 + 2.0**-22)
    excused = local_error(layer, kernels=kernels, executed=scaled).output
    assert bool(((scaled - exact).abs() <= excused).all())
    place = int((exact.abs() - known.output / 2**-24).flatten().argmax())
    alone = output.clone()
    alone.flatten()[place] = (exact + 0.9 * guessed.output).flatten()[place].float()
    off = (alone - exact).abs()
    assert bool((off <= guessed.output).all())
    assert not bool((off <= local_error(layer, kernels=kernels, executed=alone).output).all())


def test_columns_that_other_rows_touch_cost_a_row_nothing(runs):
    """The patch of a batch is as wide as its widest edit; a row's share of the others is exactly zero.

    One column fewer is summed in the same order. A much narrower patch may be summed in another.
    """
    few = [run for run in runs["shared"] if len(run[1].kernels.touched) <= 2]
    assert len(few) > 8
    for edit, outcome in few:
        assert outcome.kernels.patch > 8
        bank = edited_bank(outcome.layer, edit)
        narrower = replace(outcome.kernels, patch=outcome.kernels.patch - 1)
        wide, narrow = (
            output_error(outcome.layer, bank, kernels=kernels)
            for kernels in (outcome.kernels, narrower)
        )
        assert bool(wide.isfinite().all())
        assert torch.equal(wide, narrow)


def test_scores_that_round_too_much_have_no_bound(runs):
    _, outcome = runs["resumed"][0]
    huge = replace(outcome.layer, query=outcome.layer.query * 2.0**40)
    assert bool(local_error(huge).output.isinf().all())


def test_rows_are_edited_as_they_rounded_their_last_token(tiny, ids, monkeypatch):
    banks = []
    genuine = execute.apply_bank

    def keeping(call, row, layer, bank):
        genuine(call, row, layer, bank)
        banks.append(bank)

    monkeypatch.setattr(execute, "apply_bank", keeping)
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        donor = instrument.capture(ids.flip(0), answer=3, versus=5).layer(1)
        last = (len(ids) - 1,)
        delta = torch.randn(6, 8, generator=torch.Generator().manual_seed(2))
        edits = [
            *(Replace(1, last, donor, strength=0.5), ScaleValues(1, last, 0.3)),
            QueryEdit(1, (), delta),
        ]
        outcomes = instrument.execute(capture, edits).outcomes
    for edit, outcome, bank in zip(edits, outcomes, banks, strict=True):
        own = edited_bank(outcome.layer, edit)
        for name in ("query", "keys", "values"):
            assert torch.equal(getattr(own, name), getattr(bank, name))


def test_an_attention_that_multiplies_otherwise_is_noticed(tiny, ids, monkeypatch):
    with attach(tiny("llama")) as instrument:
        bench = Bench(instrument, ids, 3, 5, 4)
        assert products_are_as_probed(bench).passed
        genuine = torch.matmul

        def in_two(left, right):
            half = left.shape[-1] // 2
            parts = genuine(left[..., :half], right[..., :half, :])
            return parts + genuine(left[..., half:], right[..., half:, :])

        monkeypatch.setattr(torch, "matmul", in_two)
        check = products_are_as_probed(bench)
    assert not check.passed
    assert check.figure == len(instrument.support.sites)
