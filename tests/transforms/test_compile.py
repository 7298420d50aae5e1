"""torch.compile with fullgraph=True takes functions without a break, and what it cannot take says so."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.transforms.table import TABLE

# Dynamo traces everything. These go through the later stages too: AOTAutograd, and a native compiler.
LOWERED = [
    "finite_response",
    "finite_response, masked",
    "decompose",
    "PreparedGroups.response",
    "PreparedGroups.response, heavy",
    "PreparedGroups.response, spans",
    "PreparedSingles.response",
]
NATIVE = ["finite_response", "decompose", "PreparedGroups.response"]

Verdicts = dict[str, str]


def run_backend(backend: str, names: list[str]) -> Verdicts:
    """The verdicts of tests/transforms/compiled.py."""
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.transforms.compiled", backend, *names]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def traced() -> Verdicts:
    return run_backend("eager", list(TABLE))


@pytest.mark.parametrize("name", [k for k, case in TABLE.items() if "compile" not in case.refused])
def test_a_whole_graph_agrees_with_eager_torch(name: str, traced: Verdicts):
    assert traced[name] == "agrees"


@pytest.mark.parametrize("name", [k for k, case in TABLE.items() if "compile" in case.refused])
def test_what_cannot_be_compiled_says_so(name: str, traced: Verdicts):
    assert TABLE[name].refused["compile"] in traced[name]
    assert "inside torch.compile" in traced[name]


def test_what_was_prepared_outside_answers_from_inside_a_graph():
    names = ["readout", "groups", "spans", "singles"]
    assert run_backend("eager", names) == dict.fromkeys(names, "agrees")


def test_tracked_tensors_do_not_enter_a_graph():
    verdict = run_backend("eager", ["tracked"])["tracked"]
    assert "must not be tracked where they enter torch.compile" in verdict
    assert "Pass value_of(tensor)" in verdict


def test_responses_can_be_lowered():
    assert run_backend("aot_eager", LOWERED) == dict.fromkeys(LOWERED, "agrees")


@pytest.mark.skipif(shutil.which("c++") is None, reason="inductor needs a compiler of C++")
def test_responses_can_be_made_native():
    assert run_backend("inductor", NATIVE) == dict.fromkeys(NATIVE, "agrees")
