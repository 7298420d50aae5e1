"""Parsers of what users write and of files: whatever comes, a value or a ValueError that can be read.

Texts are drawn from the marks that the forms use, so that most of them are nearly right.
"""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings, strategies as st

from finite_calculus.checkpoints.errors import CheckpointError
from finite_calculus.checkpoints.folder import parts_of, read_config
from finite_calculus.harness.directory import RUN, read_plan_file, read_run
from finite_calculus.harness.shards import SEAL, problems
from finite_calculus.search.specs import parse_edit, parse_numbers, parse_request
from finite_calculus.studies.answer_repair.case_file import read_case
from finite_calculus.tasks.prompt_file import read_prompts

MARKS = [
    "odds",
    "bits",
    "delete",
    "fast",
    "value",
    ":",
    ".",
    ",",
    "-",
    "=",
    "#",
    '"',
    "0",
    "1",
    "7",
    "9",
]
WORDS = st.lists(
    st.sampled_from([*MARKS, "99999999999", "1e999", "nan", "inf", "-1", " ", "\0", "٣", "é"]),
    max_size=12,
).map("".join)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)
FILES = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def fields(*names: str) -> st.SearchStrategy[str]:
    """JSON with some of these fields, of any kind, or bytes that are nearly JSON."""
    nearly = st.dictionaries(st.sampled_from(names), PLAIN, max_size=len(names)).map(json.dumps)
    return nearly | nearly.map(lambda text: text[: len(text) // 2]) | st.just("[" * 2_000)


@given(WORDS)
@example("odds:1:0-999999999:2")
def test_edits(text: str) -> None:
    refused_or_read(lambda: parse_edit(text, 20, find=lambda _: (1,)))


@given(WORDS)
def test_numbers(text: str) -> None:
    numbers = refused_or_read(lambda: parse_numbers(text, limit=20))
    assert numbers is None or set(numbers) <= set(range(20))


@given(WORDS)
def test_requests(text: str) -> None:
    request = refused_or_read(lambda: parse_request(text, limit=20))
    assert request is None or (request.above != request.below and request.ratio > 0)


@FILES
@given(fields("prompt", "answer", "versus", "name", "edits", "surprise"))
def test_prompt_files(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    refused_or_read(lambda: read_prompts(tmp_path / "file"))


@FILES
@given(fields("message", "reply", "chat", "target", "functions", "inputs", "checks"))
def test_cases_to_repair(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    refused_or_read(lambda: read_case(tmp_path / "file"))


@FILES
@given(fields("model_type", "auto_map", "quantization_config", "weight_map"))
def test_configurations_and_indices(tmp_path: Path, text: str) -> None:
    (tmp_path / "file").write_text(text)
    refused_or_read(lambda: read_config(tmp_path / "file"), CheckpointError)
    refused_or_read(lambda: parts_of(tmp_path / "file"), CheckpointError)


@FILES
@given(
    fields("study", "fingerprint", "identity", "started", "commit", "units", "stage", "manifest")
)
def test_runs_and_plans(tmp_path: Path, text: str) -> None:
    (tmp_path / RUN).write_text(text)
    refused_or_read(lambda: read_run(tmp_path))
    refused_or_read(lambda: read_plan_file(tmp_path / RUN))


@FILES
@given(fields("unit", "fingerprint", "sha256", "dropped", "weights", "seconds"))
def test_seals(tmp_path: Path, text: str) -> None:
    (tmp_path / "unit").mkdir(exist_ok=True)
    (tmp_path / "unit" / SEAL).write_text(text)
    assert problems(tmp_path / "unit", "f" * 64)


def refused_or_read(read, error: type[Exception] = ValueError):
    """What was read; None where it was refused in words that fit a screen."""
    try:
        return read()
    except error as refusal:
        words = str(refusal)
    if not 0 < len(words) < 3_000:
        raise AssertionError(f"a refusal of {len(words)} characters")
    return None


def test_what_is_neither_fails() -> None:
    def endless() -> None:
        raise ValueError("x" * 5_000)

    with pytest.raises(KeyError):
        refused_or_read(lambda: {}["x"])
    with pytest.raises(AssertionError, match="a refusal of 5000 characters"):
        refused_or_read(endless)
