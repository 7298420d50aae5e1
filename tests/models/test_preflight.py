"""The gate opens for every supported family, and each sabotage shuts it."""

import dataclasses
import json
import sys
from contextlib import contextmanager

import pytest
import torch

import finite_calculus.models.comparison as comparison
import finite_calculus.models.execute as execute
import finite_calculus.models.install as install
import finite_calculus.models.layer as layer
import finite_calculus.models.shared as shared
from finite_calculus.models import Instrument, Margin
from finite_calculus.models.prefix import OwnLayer, SharedLayer
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.tiny import FAMILIES, tiny_model
from native_checks.preflight import CHECKS, preflight
from native_checks.records import GateCheck, compared

# As in production: jaxtyping makes the checks four times as slow. Shapes are checked in other files.
pytestmark = pytest.mark.usefixtures("unchecked_shapes")


@pytest.mark.parametrize("family", sorted(FAMILIES))
def test_the_gate_opens_for_every_family(tiny, family):
    report = preflight(tiny(family))
    assert report.passed, "\n".join(report.lines())
    ran = {check.check for check in report.checks}
    assert ran >= {f"{check.__module__.rpartition('.')[2]}.{check.__name__}" for check in CHECKS}


def test_the_report_is_saved_with_its_fingerprint(tiny, tmp_path):
    report = preflight(tiny("qwen2"))
    saved = json.loads(report.save(tmp_path / "preflight.json").read_text())
    assert len(saved["checks"]) == len(report.checks)
    assert saved["fingerprint"]["dtype"] == "torch.float32"
    assert all(len(saved["fingerprint"][k]) == 64 for k in ("sources", "weights", "config"))
    assert (
        preflight(tiny_model("qwen2", seed=1)).fingerprint["weights"]
        != report.fingerprint["weights"]
    )
    assert report.lines()[-1] == "gate open"


def test_every_layer_and_head_has_its_figure_in_the_record(tiny):
    native, fast, two = [c for c in preflight(tiny("qwen2")).checks if c.by_head is not None]
    assert native.name == "predicted Δy, head by head"
    assert fast.name == "shared path, predicted Δy, head by head"
    assert two.name == "two queries, predicted Δy, head by head"
    for check in (native, fast, two):
        assert [len(row) for row in check.by_head] == [6, 6, 6]
        assert all(0 < ratio <= 1 for row in check.by_head for ratio in row)


def test_a_single_wrong_head_is_named(tiny, monkeypatch):
    genuine = comparison.exact_response

    def wrong(captured, bank, readout):
        response = genuine(captured, bank, readout)
        if captured.layer == 1:
            response[4] *= 1.01
        return response

    monkeypatch.setattr(comparison, "exact_response", wrong)
    checks = {check.name: check for check in preflight(tiny("qwen2")).checks if not check.passed}
    compared = ("predicted Δy", "predicted Δy, head by head", "predicted Δo")
    assert {name for name in checks if "shared" not in name} == {
        *compared,
        *(f"two queries, {name}" for name in compared),
    }
    by_head = checks["predicted Δy, head by head"]
    assert by_head.figure == 1
    assert "the closest, layer 1 head 4" in by_head.reason


def test_an_unsupported_model_shuts_the_gate():
    report = preflight(tiny_model("qwen2").train())
    assert report.failed == ("support",)
    assert "evaluation mode" in report.checks[0].reason
    assert report.lines()[-1] == "gate SHUT by support"


def test_an_off_by_one_position_shuts_the_gate(tiny, monkeypatch):
    monkeypatch.setattr(
        SharedLayer, "get_seq_length", lambda self: self.source.get_seq_length() + 1
    )
    assert "full against cached" in preflight(tiny("qwen2")).failed


def test_a_missing_mask_registration_shuts_the_gate(tiny, monkeypatch):
    monkeypatch.setattr(install.AttentionMaskInterface, "register", classmethod(lambda *a: None))
    assert preflight(tiny("qwen2")).failed == ("support",)
    # And if nobody looked at the registration, the figures would tell.
    monkeypatch.setattr(install, "check_installed", lambda *a: None)
    monkeypatch.setattr(sys.modules[Instrument.__module__], "check_installed", lambda *a: None)
    assert "attention is causal" in preflight(tiny("qwen2")).failed


def test_a_wrong_head_grouping_shuts_the_gate(tiny, monkeypatch):
    def interleaved(values, heads):
        return values.repeat(heads // values.shape[0], 1, 1)

    monkeypatch.setattr(layer, "repeat_groups", interleaved)
    failed = preflight(tiny("qwen2")).failed
    assert "outputs replay" in failed
    assert "predictions match execution" in failed


def test_a_leaked_row_shuts_the_gate(tiny, monkeypatch):
    genuine = execute.apply_bank

    def leaking(call: AttentionCall, row: int, *rest) -> None:
        genuine(call, row, *rest)
        genuine(call, 0, *rest)

    monkeypatch.setattr(execute, "apply_bank", leaking)
    assert "rows are isolated" in preflight(tiny("qwen2")).failed


def test_a_leaked_cache_row_shuts_the_gate(tiny, monkeypatch):
    genuine = SharedLayer.update

    def leaking(self, key_states, value_states, *args, **kwargs):
        return genuine(self, key_states.roll(1, 0), value_states.roll(1, 0), *args, **kwargs)

    monkeypatch.setattr(SharedLayer, "update", leaking)
    assert "rows are isolated" in preflight(tiny("qwen2")).failed


def test_a_cache_that_is_written_to_shuts_the_gate(tiny, monkeypatch):
    genuine = SharedLayer.update

    def writing(self, key_states, value_states, *args, **kwargs):
        states = genuine(self, key_states, value_states, *args, **kwargs)
        self.source.keys[:, :, 0] += 1e-3
        return states

    monkeypatch.setattr(SharedLayer, "update", writing)
    failed = preflight(tiny("qwen2")).failed
    assert "prefix is untouched" in failed


def test_a_dead_hook_shuts_the_gate(tiny, monkeypatch):
    monkeypatch.setattr(execute, "apply_bank", lambda *a: None)
    failed = preflight(tiny("qwen2")).failed
    assert "live edits change something" in failed
    assert "predicted Δy" in failed


def test_a_shared_row_with_the_edit_of_another_shuts_the_gate(tiny, monkeypatch):
    genuine = shared.stack_patches

    def rolled(*args):
        patch = genuine(*args)
        keys, values = patch.keys.roll(1, 1), patch.values.roll(1, 1)
        return dataclasses.replace(patch, keys=keys, values=values)

    monkeypatch.setattr(shared, "stack_patches", rolled)
    failed = preflight(tiny("qwen2")).failed
    assert "shared path, predicted Δy" in failed
    assert "shared path, effects" in failed
    assert "predicted Δy" not in failed


def test_a_shared_cache_row_that_leaks_shuts_the_gate(tiny, monkeypatch):
    monkeypatch.setattr(OwnLayer, "update", lambda self, k, v, *a: (k.roll(1, 0), v.roll(1, 0)))
    assert "shared path, effects" in preflight(tiny("qwen2")).failed


def test_the_wrong_rows_of_the_head_shut_the_gate(tiny, monkeypatch):
    genuine = shared.answers_only

    @contextmanager
    def swapped(model, margin):
        with genuine(model, margin) as pair:
            yield Margin(pair.versus, pair.answer)

    monkeypatch.setattr(shared, "answers_only", swapped)
    assert "shared path, controls" in preflight(tiny("qwen2")).failed


def test_a_bias_in_the_wrong_column_shuts_the_gate(tiny, monkeypatch):
    monkeypatch.setattr(execute, "edited_bank", _shifted(execute.edited_bank))
    assert "predicted Δo" in preflight(tiny("qwen2")).failed


def _shifted(genuine):
    def edited(captured, edits):
        bank = genuine(captured, edits)
        return layer.LayerBank(
            bank.query, bank.keys, bank.values, bank.bias.roll(1, -1), bank.changed, bank.removed
        )

    return edited


def test_a_wrong_gradient_shuts_the_gate(tiny, monkeypatch):
    monkeypatch.setattr(torch.autograd, "grad", _scaled(torch.autograd.grad))
    assert "gradient at the write" in preflight(tiny("qwen2")).failed


def _scaled(genuine):
    return lambda *args, **kwargs: tuple(
        g if g is None else 1.5 * g for g in genuine(*args, **kwargs)
    )


def test_reduced_precision_shuts_the_gate(tiny):
    torch.set_float32_matmul_precision("high")
    try:
        assert "arithmetic is as stated" in preflight(tiny("qwen2")).failed
    finally:
        torch.set_float32_matmul_precision("highest")


def test_a_comparison_fails_on_nan_above_the_bound_and_above_the_papers_tolerance():
    one = torch.ones(2)
    assert compared("x", 1e-6 * one, 1e-5 * one, one, "").passed
    assert not compared("x", torch.tensor([1e-6, float("nan")]), 1e-5 * one, one, "").passed
    assert not compared("x", 1e-4 * one, 1e-5 * one, one, "").passed
    assert not compared("x", 1e-2 * one, 1.0 * one, one, "").passed
    waived = compared("x", 1e-2 * one, 1.0 * one, one, "", waived="it is coarser")
    assert waived.passed
    assert "not required: it is coarser" in waived.line()
    assert "FAIL" in GateCheck("x", 1.0, 0.0, "", passed=False).line()
