"""The audit records that are kept: complete, no violation, and none that the code has outgrown."""

import itertools
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from proofs.numeric.checks import CHECKS
from proofs.numeric.comparison import DTYPES
from proofs.numeric.comparisons import COMPARISONS
from proofs.numeric.exhaustive import KERNELS, TARGET_ULPS
from proofs.numeric.stability import allowed_bits

KEPT = Path(__file__).parents[1] / "results" / "audit"
MEDIAN = 100  # bound over actual error, in float64, that an audit may show
CASES, MANY = 10**5, 10**6
# The finite response, the joint decomposition, the sparse evaluator, and both forms of the certificate.
LONG = (
    "finite_response",
    "decompose",
    "PreparedGroups.response",
    "certify",
    "Certificate.jacobian",
)
PATTERNS = 2**32  # of a float32
# As in production: the shape checks of the tests are code too.
SOURCES = """
import json, proofs.numeric.audit as a, proofs.numeric.exhaustive as e
audits = {name: a.sources(name) for name in a.CHECKS}
samples = {name: a.sources(name, a.stability.sample) for name in a.CHECKS}
print(json.dumps([audits, samples, {name: e.sources(name) for name in e.KERNELS}]))
"""


@pytest.fixture(scope="module")
def sources() -> list[dict[str, str]]:
    """The hashes of what every check, every sample and every sweep runs."""
    done = subprocess.run([sys.executable, "-c", SOURCES], capture_output=True, check=True)
    return json.loads(done.stdout)


def read(name: str) -> dict[str, Any]:
    return json.loads((KEPT / f"{name}.json").read_text())


def outgrown(record: dict[str, Any]) -> str:
    """Which command makes a record again."""
    return (
        f"what {record['function']} runs has changed since: finite-calculus audit --cases "
        f"{record['cases']} --function {record['function']} --dtype {record['dtype']} "
        f"--out results/audit"
    )


def test_there_is_a_record_of_every_check_and_kernel_and_no_other() -> None:
    wanted = {f"{name}-{dtype}" for name, dtype in itertools.product(CHECKS, DTYPES)}
    wanted |= {f"exhaustive-{name}" for name in KERNELS}
    assert {path.stem for path in KEPT.iterdir()} == wanted


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CHECKS)
def test_a_record_has_no_violation_and_is_of_the_code_at_hand(
    name: str, dtype: str, sources: list[dict[str, str]]
) -> None:
    record = read(f"{name}-{dtype}")
    assert (record["function"], record["dtype"]) == (name, dtype)
    assert record["violations"] == 0
    assert record["cases"] == record["settings"]["cases"] >= (MANY if name in LONG else CASES)
    assert record["worst_over_bound"] <= 1
    assert record["settings"]["sources"] == sources[0][name], outgrown(record)
    # Where no error was seen at all there is no ratio.
    if dtype == "float64" and record["slack"]:
        assert record["slack_quantiles"]["0.5"] <= MEDIAN


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", COMPARISONS)
def test_a_record_shows_a_stable_form_of_the_code_at_hand(
    name: str, dtype: str, sources: list[dict[str, str]]
) -> None:
    record = read(f"{name}-{dtype}")
    found = record["stability"]
    assert found["settings"]["cases"] == found["cases"] >= CASES // 64
    assert found["bits"] < found["allowed"] == allowed_bits(dtype)
    assert found["settings"]["sources"] == sources[1][name], outgrown(record)


@pytest.mark.parametrize("name", KERNELS)
def test_a_sweep_tried_every_float32_and_is_of_the_code_at_hand(
    name: str, sources: list[dict[str, str]]
) -> None:
    record = read(f"exhaustive-{name}")
    assert (record["kernel"], record["inputs"], record["violations"]) == (name, PATTERNS, 0)
    assert 0 < record["ulps"] <= TARGET_ULPS
    assert record["sources"] == sources[2][name], (
        f"what {name} runs has changed since: "
        f"finite-calculus audit --exhaustive --function {name} --out results/audit"
    )
