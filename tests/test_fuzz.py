"""Parsers of what users write and of files: whatever comes, a value or a refusal that can be read.

`bench/fuzz.py` tries many more inputs of the same targets, and counts.
"""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.helpers.fuzzing import TARGETS, EndlessRefusalError, Target, attempt

FILES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


@FILES
@pytest.mark.parametrize("name", TARGETS)
@given(st.data())
def test_what_comes_is_read_or_refused(tmp_path: Path, name: str, data: st.DataObject) -> None:
    target = TARGETS[name]
    attempt(target, data.draw(target.inputs), tmp_path)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("edits", "odds:1:0-999999999:2"),
        ("tokens and layers", "9" * 400),
        ("weight indices", b'{"weight_map": {"": null}}'),
        ("units of an object store", [(0.0, False, "leave out", b"\0")]),
        ("llama2.c headers", [(0.5, False, "put in", b"\0")]),
    ],
)
def test_what_the_fuzzers_found_is_refused(tmp_path: Path, name: str, value: object) -> None:
    assert attempt(TARGETS[name], value, tmp_path)


def test_what_is_neither_fails(tmp_path: Path) -> None:
    def endless(value: object, folder: Path) -> None:
        raise ValueError("x" * 5_000)

    def wrong(value: object, folder: Path) -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        attempt(Target(st.none(), wrong), None, tmp_path)
    with pytest.raises(EndlessRefusalError, match="a refusal of 5000 characters"):
        attempt(Target(st.none(), endless), None, tmp_path)
