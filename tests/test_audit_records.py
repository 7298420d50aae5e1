"""The audit records that are kept: no violation, and none that the code has outgrown."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

RECORDS = sorted((Path(__file__).parents[1] / "results" / "audit").glob("*-float*.json"))
MEDIAN = 100  # bound over actual error, in float64, that an audit may show
# As in production: the shape checks of the tests are code too.
SOURCES = "import json, proofs.audit as a; print(json.dumps({n: a.sources(n) for n in a.CHECKS}))"


@pytest.fixture(scope="module")
def sources() -> dict[str, str]:
    """The hash of what every check runs."""
    done = subprocess.run([sys.executable, "-c", SOURCES], capture_output=True, check=True)
    return json.loads(done.stdout)


def test_there_are_records() -> None:
    assert RECORDS


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_a_record_has_no_violation_and_is_of_the_code_at_hand(
    path: Path, sources: dict[str, str]
) -> None:
    record = json.loads(path.read_text())
    assert path.stem == f"{record['function']}-{record['dtype']}"
    assert record["violations"] == 0
    assert record["cases"] == record["settings"]["cases"] >= 10**5
    assert record["worst_over_bound"] <= 1
    assert record["settings"]["sources"] == sources[record["function"]], (
        f"what {record['function']} runs has changed since: "
        f"finite-calculus audit --cases {record['cases']} --function {record['function']} "
        f"--dtype {record['dtype']} --out results/audit"
    )
    # Where no error was seen at all there is no ratio.
    if record["dtype"] == "float64" and record["slack"]:
        assert record["slack_quantiles"]["0.5"] <= MEDIAN
