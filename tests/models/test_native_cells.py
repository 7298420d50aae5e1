"""Checks by native cells: each calls what its entries name, and fails when a formula is a little wrong."""

import dataclasses
import importlib
import sys

import pytest
import torch

from finite_calculus.models import attach
from native_checks import entries, gradients, joint, local, positions, queries, replays
from native_checks.bench import Bench
from native_checks.records import Gathered
from proofs import native
from proofs.catalogue import find

pytestmark = pytest.mark.usefixtures("unchecked_shapes")
CORE = "finite_calculus."
# Entries that the paper measures natively, or that named a check which did not touch them.
MEASURED = (
    "main:sparse", "eq:singlerepair", "eq:kvfactorial", "eq:jointdownstreamfactorial", "eq:jointmatrix",
    "eq:gradient", "eq:projections", "eq:jointpredictor", "eq:tokenerror", "eq:phasejacobian",
    "main:tworemainders", "eq:bandinteraction", "eq:phasecontent", "U17", "U18", "U19", "eq:repairbenefit",
    "U21", "eq:quadraticinteraction", "main:querycontrol",
)  # fmt: skip


@pytest.fixture(scope="module")
def bench(tiny):
    model = tiny("qwen2")
    ids = torch.randint(3, 96, (24,), generator=torch.Generator().manual_seed(981))
    with attach(model) as instrument:
        yield Bench(instrument, ids, 3, 5, 8)


def records_of(check, bench):
    records = check(bench)
    return records if isinstance(records, tuple) else (records,)


def core_functions(action) -> set[str]:
    """The functions of the core, as file.name, that an action calls."""
    called: set[str] = set()

    def note(frame, event, _) -> None:
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith(CORE) and module.count(".") == 1:
            called.add(f"{module.removeprefix(CORE)}.{frame.f_code.co_name}")

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.parametrize("name", native.CHECKS)
def test_a_check_calls_a_function_of_every_entry_it_is_named_for(bench, name):
    module, _, function = name.partition(".")
    check = getattr(importlib.import_module(f"native_checks.{module}"), function)
    called = core_functions(lambda: records_of(check, bench))
    untouched = [x for x in native.CHECKS[name] if not called & set(find(x).functions)]
    assert untouched == []


@pytest.mark.parametrize("name", MEASURED)
def test_what_the_paper_measures_natively_has_a_native_check(name):
    assert native.native_checks_of(find(name).names)


def times(factor):
    return lambda genuine: lambda *args, **kwargs: factor * genuine(*args, **kwargs)


def with_part(name, factor):
    """The result with one of its fields scaled."""

    def wrap(genuine):
        def wrong(*args, **kwargs):
            result = genuine(*args, **kwargs)
            return dataclasses.replace(result, **{name: factor * getattr(result, name)})

        return wrong

    return wrap


def first_order_only(genuine):
    return lambda cache, weight, method: genuine(cache, weight, "first-order")


def another_entry(genuine):
    """The worst entry in place of the best."""

    def wrong(cache, weight, count, *, candidates):
        scores = torch.where(
            candidates, entries.restoration_scores(cache, weight, "exact"), torch.inf
        )
        plan = genuine(cache, weight, count, candidates=candidates)
        return dataclasses.replace(plan, restored=scores.argmin(-1, keepdim=True))

    return wrong


def too_small(genuine):
    def wrong(*args, **kwargs):
        plan = genuine(*args, **kwargs)
        return dataclasses.replace(plan, distortions=tuple(0.99 * x for x in plan.distortions))

    return wrong


SLIGHTLY = times(1.001)
SABOTAGE = [
    (local.score_increments_match, "rotate", SLIGHTLY, "rotated keys"),
    (local.score_increments_match, "displacement", SLIGHTLY, "rotated keys"),
    (local.score_increments_match, "key_shift_scores", SLIGHTLY, "rotated score increments"),
    (joint.parts_match_cells, "key_response", SLIGHTLY, "native cells, K"),
    (joint.parts_match_cells, "linear_response", SLIGHTLY, "native cells, K"),
    (joint.parts_match_cells, "value_response", SLIGHTLY, "native cells, V"),
    (joint.parts_match_cells, "interaction", SLIGHTLY, "native cells, C_KV"),
    (joint.parts_match_cells, "decompose", with_part("total", 1.001), "native cells, all"),
    (joint.weights_renormalise, "probability_change", SLIGHTLY, "native probabilities"),
    (joint.leading_term_matches_cells, "quadratic_interaction", times(0.5), "native cells, C₂"),
    (joint.certificates_hold, "certify", with_part("first_order", -1), "certificates"),
    (joint.matrices_match_cells, "weights_of", with_part("mean", 1.001), "joint change of weights"),
    (queries.projections_match, "affine_query", SLIGHTLY, "affine projections"),
    (queries.projections_match, "head_features", SLIGHTLY, "affine scores"),
    (queries.gradient_steps_reconstruct, "unit_gradient_step", SLIGHTLY, "unit gradient steps"),
    (queries.anchors_leave_their_residual, "anchor_residual", SLIGHTLY, "reused matrix"),
    (queries.anchors_leave_their_residual, "anchor_bound", times(0.1), "reused matrix, norm"),
    (queries.requested_ratios_are_native, "control_query", with_part("edit", 1.001), "requested log ratios"),
    (positions.jacobian_and_remainders, "positional_jacobian", SLIGHTLY, "Jacobian and two remainders"),
    (positions.jacobian_and_remainders, "softmax_remainder", SLIGHTLY, "Jacobian and two remainders"),
    (positions.jacobian_and_remainders, "rotary_remainder", SLIGHTLY, "Jacobian and two remainders"),
    (positions.bands_match_cells, "key_shift_scores", SLIGHTLY, "bands add up"),
    (positions.bands_match_cells, "band_interaction", SLIGHTLY, "native cells, H"),
    (positions.bands_match_cells, "band_interaction", SLIGHTLY, "projected H"),
    (positions.bands_match_cells, "band_interaction", SLIGHTLY, "relative interaction"),
    (positions.mixed_derivative_matches_cells, "mixed_second_derivative", times(1.1), "mixed derivative"),
    (positions.phase_and_context_match_cells, "finite_response", SLIGHTLY, "phase, context, interaction"),
    (positions.phase_and_context_match_cells, "signed_projections",
     lambda genuine: lambda parts: {k: -v for k, v in genuine(parts).items()}, "signed projections"),
    (entries.own_key_carries_its_mass, "repeat_groups", SLIGHTLY, "own key"),
    (entries.deletions_match_control, "deletion_jacobian", SLIGHTLY, "deletion, Jacobian control"),
    (entries.deletions_match_control, "select_evictions", too_small, "planned evictions"),
    (entries.restorations_match_cells, "restoration_response", SLIGHTLY, "restored entries"),
    (entries.restorations_match_cells, "restoration_scores", SLIGHTLY, "restoration benefit"),
    (entries.restorations_match_cells, "restore_greedily", another_entry, "greedy restoration"),
    (entries.expansions_match_cells, "restoration_scores", first_order_only, "second-order restoration"),
    (gradients.predictor_matches_differences, "contract", times(1.2), "joint predictor"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("check", "function", "wrong", "name"),
    SABOTAGE,
    ids=[f"{name}, {function}" for _, function, _, name in SABOTAGE],
)
def test_a_slightly_wrong_formula_fails_its_check(bench, monkeypatch, check, function, wrong, name):
    assert all(record.passed for record in records_of(check, bench))
    module = sys.modules[check.__module__]
    monkeypatch.setattr(module, function, wrong(getattr(module, function)))
    failed = [record.name for record in records_of(check, bench) if not record.passed]
    assert name in failed


@pytest.mark.parametrize("part", ["response", "scores"])
def test_sparse_groups_with_a_wrong_sum_fail(bench, monkeypatch, part):
    assert joint.sparse_groups_match_cells(bench).passed
    genuine = joint.prepare

    def wrong(readout, groups):
        prepared = genuine(readout, groups)
        if part == "scores":
            return dataclasses.replace(prepared, pulls=1.001 * prepared.pulls)
        return dataclasses.replace(prepared, rest=1.001 * prepared.rest)

    monkeypatch.setattr(joint, "prepare", wrong)
    assert not joint.sparse_groups_match_cells(bench).passed


def test_a_replay_that_leaves_out_the_edit_fails(bench, monkeypatch):
    monkeypatch.setattr(replays, "apply_bank", lambda *_: None)
    fresh = Bench(bench.instrument, bench.ids, bench.answer, bench.versus, bench.batch)
    assert not joint.parts_match_cells(fresh)[0].passed


def test_a_replay_of_other_tensors_is_not_native(bench, monkeypatch):
    replay = bench.replays[0]
    call = dataclasses.replace(replay.call, query=1.001 * replay.call.query)
    other = dataclasses.replace(replay, call=call)
    monkeypatch.setitem(vars(bench), "replays", (other,))
    assert not joint.replays_are_native(bench).passed


def test_a_check_that_compared_nothing_says_so():
    record = Gathered("nothing").check("a reason", none="no layer rotates")
    assert (record.compared, record.passed) == (0, True)
    assert "nothing to compare: no layer rotates" in record.reason
