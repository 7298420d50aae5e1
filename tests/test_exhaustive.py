"""The exhaustive sweep: its units, its references, and that it sees an error."""

import dataclasses
import math

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

from finite_calculus.cli import app
from proofs.numeric import exhaustive, record_files


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    """A sweep of a few slices, spread over all bit patterns."""
    monkeypatch.setattr(exhaustive, "_PIECE", exhaustive._SLICE)


@pytest.mark.parametrize("name", exhaustive.KERNELS)
def test_a_spread_of_all_float32_stays_within_the_target(name: str) -> None:
    sweep = exhaustive.sweep(name, jobs=1, pieces=16)
    assert sweep.inputs == 16 * exhaustive._SLICE
    assert sweep.violations == 0
    assert 0 < sweep.ulps <= exhaustive.TARGET_ULPS


def test_the_plain_quotient_is_seen_to_fail(monkeypatch) -> None:
    plain = dataclasses.replace(exhaustive.KERNELS["phi1"], compute=lambda x: (x.exp() - 1) / x)
    monkeypatch.setitem(exhaustive.KERNELS, "phi1", plain)
    sweep = exhaustive.sweep("phi1", jobs=1, pieces=16)
    assert sweep.ulps > 1000
    assert sweep.violations > 0  # 0/0


@pytest.mark.parametrize("wrong", [(0.0, 1.0), (1.0, math.inf), (0.0, math.nan)])
def test_infinities_and_nans_are_tried_too(monkeypatch, wrong: tuple[float, float]) -> None:
    infinities = 0x7F800000, 0xFF800000  # each begins a slice, and NaNs follow
    sweeps = [exhaustive._slice("phi1", start) for start in infinities]
    assert [(sweep.inputs, sweep.violations) for sweep in sweeps] == [(exhaustive._SLICE, 0)] * 2
    other = dataclasses.replace(exhaustive.KERNELS["phi1"], at_infinity=wrong)
    monkeypatch.setitem(exhaustive.KERNELS, "phi1", other)
    assert sum(exhaustive._slice("phi1", start).violations for start in infinities) == 1


def test_a_reference_that_cannot_tell_units_is_refused(monkeypatch) -> None:
    blurred = dataclasses.replace(
        exhaustive.KERNELS["phi1"], reference=lambda x: np.where(x == 0, 1, np.expm1(x) / x) + 1e-9
    )
    monkeypatch.setitem(exhaustive.KERNELS, "phi1", blurred)
    with (
        pytest.raises(ArithmeticError, match="reference of phi1 is off"),
        np.errstate(all="ignore"),
    ):
        exhaustive.sweep("phi1", jobs=1, pieces=16)


def test_one_step_is_one_unit_also_at_the_ends() -> None:
    numbers = np.array([1.0, 1.5, 1e-45, 3.0e38], np.float32)
    above = np.nextafter(numbers, np.float32(np.inf))
    assert exhaustive.ulps(above, numbers.astype(np.float64)).tolist() == [1, 1, 1, 1]
    largest = float(np.finfo(np.float32).max)
    assert exhaustive.ulps(np.array([np.inf], np.float32), np.array([largest]))[0] == 1
    assert exhaustive.ulps(np.array([np.inf], np.float32), np.array([math.inf]))[0] == 0


def test_a_whole_sweep_is_recorded_once(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(exhaustive, "_PATTERNS", 4 * exhaustive._SLICE)
    first = exhaustive.sweep("phi2", jobs=1, out=tmp_path)
    record = record_files.read(tmp_path).sweeps["phi2"]
    assert record["inputs"] == first.inputs == 4 * exhaustive._SLICE
    monkeypatch.setattr(exhaustive, "_try", lambda item: pytest.fail("computed again"))
    assert exhaustive.sweep("phi2", jobs=1, out=tmp_path) == first


def test_the_command_reports_kernels_and_refuses_other_functions(monkeypatch) -> None:
    monkeypatch.setattr(exhaustive, "_PATTERNS", 2 * exhaustive._SLICE)
    arguments = ["audit", "--exhaustive", "--jobs", "1", "--function"]
    report = CliRunner().invoke(app, [*arguments, "cos_minus_one"])
    assert report.exit_code == 0
    assert report.output.splitlines()[-1] == "1 kernels, 0 beyond 2 ulps"
    refusal = CliRunner().invoke(app, [*arguments, "certify"])
    assert refusal.exit_code == 2
    assert "scalar kernel" in refusal.output


def test_kernels_are_the_functions_of_the_package() -> None:
    x = torch.tensor([-3.0, 0.0, 0.5])
    change = exhaustive.KERNELS["probability_change"].compute(x)
    assert torch.equal(change, torch.expm1(-x.abs()) * torch.tensor([1.0, 1.0, -1.0]))
