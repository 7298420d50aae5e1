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

PREPARED = ["readout", "groups", "spans", "singles"]
COMPILER = shutil.which("c++") is not None

# One process compiles everything, and one worker asks it.
pytestmark = pytest.mark.xdist_group("compile")
Verdicts = dict[str, str]


@pytest.fixture(scope="module")
def verdicts() -> Verdicts:
    """What tests/transforms/compiled.py says of each backend and name."""
    backends = {"eager": [*TABLE, *PREPARED, "tracked"], "aot_eager": LOWERED}
    if COMPILER:
        backends["inductor"] = NATIVE
    jobs = [f"{backend}: {name}" for backend, names in backends.items() for name in names]
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "tests.transforms.compiled", *jobs]
    run = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", [k for k, case in TABLE.items() if "compile" not in case.refused])
def test_a_whole_graph_agrees_with_eager_torch(name: str, verdicts: Verdicts):
    assert verdicts[f"eager: {name}"] == "agrees"


@pytest.mark.parametrize("name", [k for k, case in TABLE.items() if "compile" in case.refused])
def test_what_cannot_be_compiled_says_so(name: str, verdicts: Verdicts):
    verdict = verdicts[f"eager: {name}"]
    assert TABLE[name].refused["compile"] in verdict
    assert "inside torch.compile" in verdict


@pytest.mark.parametrize("name", PREPARED)
def test_what_was_prepared_outside_answers_from_inside_a_graph(name: str, verdicts: Verdicts):
    assert verdicts[f"eager: {name}"] == "agrees"


def test_tracked_tensors_do_not_enter_a_graph(verdicts: Verdicts):
    verdict = verdicts["eager: tracked"]
    assert "must not be tracked where they enter torch.compile" in verdict
    assert "Pass value_of(tensor)" in verdict


@pytest.mark.parametrize("name", LOWERED)
def test_responses_can_be_lowered(name: str, verdicts: Verdicts):
    assert verdicts[f"aot_eager: {name}"] == "agrees"


@pytest.mark.skipif(not COMPILER, reason="inductor needs a compiler of C++")
@pytest.mark.parametrize("name", NATIVE)
def test_responses_can_be_made_native(name: str, verdicts: Verdicts):
    assert verdicts[f"inductor: {name}"] == "agrees"
