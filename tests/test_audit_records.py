"""The audit records that are kept: undamaged, complete and without a violation.

Whether they are of the code at hand is asked by `finite-calculus audit --stale`, in the nightly run.
"""

from pathlib import Path

import pytest

from proofs.numeric import record_files
from proofs.numeric.comparison import DTYPES
from proofs.numeric.exhaustive import TARGET_ULPS
from proofs.numeric.stability import allowed_bits

# Reading them holds each table to its digest.
KEPT = record_files.read(Path(__file__).parents[1] / "results" / "audit")
FUNCTIONS = sorted({name for name, _ in KEPT.audits})
MEDIAN = 100  # bound over actual error, in float64, that an audit may show
CASES, MANY = 2 * 10**4, 10**6
LONG = ("finite_response", "PreparedGroups.response", "certify")
PATTERNS = 2**32  # of a float32


def test_the_records_are_many_and_in_both_precisions() -> None:
    assert set(LONG) <= set(FUNCTIONS)
    assert KEPT.audits.keys() == {(name, dtype) for name in FUNCTIONS for dtype in DTYPES}
    with_stability = {key for key, record in KEPT.audits.items() if "stability" in record}
    assert {(name, dtype) for name, _ in with_stability for dtype in DTYPES} == with_stability
    assert len(KEPT.sweeps) >= 5


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_record_is_complete_and_has_no_violation(name: str, dtype: str) -> None:
    record = KEPT.audits[name, dtype]
    assert record["violations"] == 0
    assert record["cases"] == record["settings"]["cases"] >= (MANY if name in LONG else CASES)
    assert record["worst_over_bound"] <= 1
    assert (record["worst"] is None) == (record["inputs"] is None)
    # Where no error was seen at all there is no ratio.
    if dtype == "float64" and record["slack"]:
        assert record["slack_quantiles"]["0.5"] <= MEDIAN


@pytest.mark.parametrize(
    ("name", "dtype"), [key for key, record in KEPT.audits.items() if "stability" in record]
)
def test_a_record_shows_a_stable_form(name: str, dtype: str) -> None:
    sample = KEPT.audits[name, dtype]["stability"]
    assert sample["settings"]["cases"] == sample["cases"] >= CASES // 64
    assert sample["bits"] < sample["allowed"] == allowed_bits(dtype)


@pytest.mark.parametrize("name", KEPT.sweeps)
def test_a_sweep_tried_every_float32(name: str) -> None:
    record = KEPT.sweeps[name]
    assert (record["inputs"], record["violations"]) == (PATTERNS, 0)
    assert 0 < record["ulps"] <= TARGET_ULPS
