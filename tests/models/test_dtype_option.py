"""`--dtype` beside every `--device`, and what the commands say in half precision."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
import typer
from typer.testing import CliRunner

from finite_calculus.checkpoints import load
from finite_calculus.cli import app
from finite_calculus.cli.options import DTYPES
from finite_calculus.models import Instrument
from finite_calculus.models.precision import PRECISIONS

PROMPT = ("--model", "tiny-qwen2", "--prompt", "The cat sat on the mat and")
SIDES = ("--answer", "#5", "--versus", "#7")


def run(*words: str):
    return CliRunner().invoke(app, list(words))


def test_the_option_offers_the_precisions_that_there_are():
    assert set(DTYPES) == set(PRECISIONS)


def test_every_command_that_takes_a_device_takes_a_dtype():
    group = typer.main.get_command(app)
    commands = {name: {p.name for p in c.params} for name, c in group.commands.items()}  # type: ignore[attr-defined]
    with_device = {name for name, names in commands.items() if "device" in names}
    # These two compute what the settings of a run say, its precision included.
    assert {name for name in with_device if "dtype" not in commands[name]} == {"again", "work"}


def test_an_unknown_dtype_is_refused():
    result = run("execute", *PROMPT, *SIDES, "--dtype", "int8", "--edit", "odds:1:2:4")
    assert result.exit_code == 2
    assert "must be one of float32" in result.output
    with pytest.raises(ValueError, match="`dtype` must be one of float32"):
        load("tiny-qwen2", dtype="int8")


def test_execute_in_half_precision_marks_what_is_not_resolved(tmp_path: Path):
    out = tmp_path / "out.json"
    edits = ("--edit", "odds:1:2:1.02", "--edit", "odds:1:2-9:5000")
    result = run("execute", *PROMPT, *SIDES, "--dtype", "float16", *edits, "--json", str(out))
    assert result.exit_code == 0, result.output
    saved = json.loads(out.read_text())
    assert saved["fingerprint"]["dtype"] == "torch.float16"
    floor = saved["noise_floor"]
    small, large = (abs(row["executed"]["effect"]) for row in saved["rows"])
    assert small < floor < large
    assert "1 of 2 executed effects are not resolved" in result.output
    assert result.output.count("(+0.") + result.output.count("(-0.") == 1


# Commands that show executed effects, in float16.
SHOWING = {
    "score": ("--layers", "0", "--top", "30", "--execute", "4", "--certify"),
    "evict": ("--count", "1"),
    "restore": ("--bits", "12", "--count", "1"),
    "kv-error": ("--transform", "sym8/vector"),
    "steer": ("--layer", "1", "--head", "1", "--ratio", "2:3=1.01"),
}


def effects_of(entry: object) -> Iterator[tuple[float, bool]]:
    """Every executed effect of a JSON file beside what it says of it."""
    if isinstance(entry, dict):
        for effect, resolved in (("effect", "resolved"), ("sampled", "sampled_resolved")):
            if entry.get(resolved) is not None:
                yield entry[effect], entry[resolved]
    if isinstance(entry, dict | list):
        for part in entry.values() if isinstance(entry, dict) else entry:
            yield from effects_of(part)


@pytest.mark.parametrize("command", SHOWING)
def test_every_command_marks_effects_below_the_noise_floor(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    out, genuine = tmp_path / "out.json", Instrument.noise_floor
    # So high that each of these commands has an effect below it.
    monkeypatch.setattr(Instrument, "noise_floor", lambda self, asked: 16 * genuine(self, asked))
    words = (*PROMPT, *SIDES, "--dtype", "float16", "--quiet", *SHOWING[command])
    result = run(command, *words, "--json", str(out))
    assert result.exit_code == 0, result.output
    saved = json.loads(out.read_text())
    marked = list(effects_of(saved))
    assert marked
    assert all(resolved is (abs(effect) >= saved["noise_floor"]) for effect, resolved in marked)
    below = [effect for effect, resolved in marked if not resolved]
    assert below
    assert f"({below[0]:+.4f})" in result.output
    assert "executed effects are not resolved: float16 alone may make" in result.output


def test_a_table_of_many_prompts_says_which_effects_are_resolved(tmp_path: Path):
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"prompt": PROMPT[3]}) + "\n")
    words = (*PROMPT[:2], *SIDES, "--dtype", "float16", "--quiet")
    edits = ("--edit", "odds:1:2:1.02", "--edit", "odds:1:2-9:5000")
    where = ("--prompts", str(tmp_path / "prompts.jsonl"), "--out", str(tmp_path / "out"))
    result = run("execute", *words, *edits, *where, "--json", str(tmp_path / "rows.json"))
    assert result.exit_code == 0, result.output
    rows = json.loads((tmp_path / "rows.json").read_text())["rows"]
    assert [row["resolved"] for row in rows] == [False, True]
    assert f"({rows[0]['executed']:+.4f})" in result.output


def test_a_passage_in_half_precision_has_no_second_order():
    objective = ("--objective", "log-probability", "--answer", " on the mat")
    result = run("execute", *PROMPT, *objective, "--dtype", "float16", "--edit", "odds:1:2:4")
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("command", ["score", "preflight"])
def test_other_commands_run_in_half_precision(command: str):
    words = (
        (*PROMPT, *SIDES, "--top", "2") if command == "score" else ("tiny-llama", "--only-target")
    )
    result = run(command, *words, "--dtype", "float16", "--quiet")
    assert result.exit_code == 0, result.output


def test_a_loaded_model_keeps_its_frequencies_in_float32():
    model, _ = load("tiny-llama", dtype="float16")
    assert {p.dtype for p in model.parameters()} == {torch.float16}
    frequencies = [b for name, b in model.named_buffers() if name.endswith("inv_freq")]
    assert frequencies
    assert all(b.dtype == torch.float32 for b in frequencies)
