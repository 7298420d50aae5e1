"""Commands over a file of prompts: one table, the numbers of a single prompt, resumable, checked first."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
import torch
from typer.testing import CliRunner

from finite_calculus.checkpoints import load
from finite_calculus.cli import app, many
from finite_calculus.models import Delete, Instrument, attach, load_capture
from finite_calculus.models.storage import same_tensors

# As in production: jaxtyping makes the commands several times as slow. Shapes are checked in other files.
pytestmark = pytest.mark.usefixtures("unchecked_shapes")
LAST = "Entity 01: A\nEntity 02: B\nAnswer:"
LINES = (
    {"prompt": "A B C D", "answer": "A", "versus": "B", "name": "first"},
    {"prompt": "A B C D E F", "edits": ["odds:1:2:4", "value:1.0:2:0"]},
    {"prompt": LAST, "answer": "B", "versus": "A", "edits": ['delete:1:"02: B"']},
)
SHORT = ("--layers", "1", "--top", "2", "--execute", "1", "--no-sample", "--no-certify")


def written(folder: Path, *lines: dict) -> str:
    path = folder / "prompts.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(path)


def command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, [*arguments, "--quiet"])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def table(folder: Path) -> list[dict]:
    return pq.read_table(folder / "table.parquet").to_pylist()


@pytest.fixture
def asked(tmp_path) -> tuple[str, ...]:
    return ("--prompts", written(tmp_path, *LINES), "--out", str(tmp_path / "out"))


def test_scores_of_many_prompts_are_those_of_each_alone(asked, tmp_path) -> None:
    code, output = command("score", *asked, *SHORT)
    assert code == 0, output
    rows = table(tmp_path / "out")
    assert [row["line"] for row in rows] == [1, 1, 2, 2, 3, 3]
    assert rows[0]["name"] == "first"
    assert "6 rows in" in output
    alone = tmp_path / "alone.json"
    single = ["--prompt", LAST, "--answer", "B", "--versus", "A", "--json", str(alone)]
    assert command("score", *single, *SHORT)[0] == 0
    saved = json.loads(alone.read_text())
    for row, other in zip(rows[4:], saved["rows"], strict=True):
        assert (row["baseline"], row["predicted"]) == (saved["baseline"], other["effect"])
        assert (row["edit"], row["text"]) == (other["kind"], other["text"])
    assert rows[4]["executed"] == saved["rows"][0]["executed"]["effect"]
    assert rows[4]["local_error"] <= rows[4]["local_bound"]
    assert rows[5]["executed"] is None


def test_edits_are_those_of_the_line_or_else_of_the_command(asked, tmp_path) -> None:
    target = tmp_path / "rows.json"
    code, output = command("execute", *asked, "--edit", "delete:1:3", "--json", str(target))
    assert code == 0, output
    rows = table(tmp_path / "out")
    edits = [(row["line"], row["edit"]) for row in rows]
    lines = [(2, edit) for edit in LINES[1]["edits"]] + [(3, LINES[2]["edits"][0])]
    assert edits == [(1, "delete:1:3"), *lines]
    assert rows[3]["text"] == "02: B"
    assert all(row["beyond"] == 0 and row["executed"] != 0 for row in rows)
    saved = json.loads(target.read_text())
    assert saved["rows"] == rows
    assert len(saved["fingerprint"]["weights"]) == 64


@pytest.mark.parametrize(
    ("options", "count"),
    [
        (("--together",), 3),
        (("--together", "--curvature", "2"), 3),
        (("--readers", "2"), 4),
        (("--objective", "log-probability", "--answer", "B A B"), 2),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_every_way_of_executing_goes_over_prompts(tmp_path, options, count) -> None:
    lines = LINES if "log-probability" not in options else [{"prompt": LAST}, {"prompt": "A B C D"}]
    asked = ("--prompts", written(tmp_path, *lines), "--out", str(tmp_path / "out"))
    code, output = command("execute", *asked, "--edit", "delete:1:3", *options)
    assert code == 0, output
    rows = table(tmp_path / "out")
    assert len(rows) == count
    assert all(row["executed"] != 0 and row["predicted"] != 0 for row in rows)


def test_a_saved_capture_is_the_one_that_the_prompt_gives(asked, tmp_path) -> None:
    code, output = command("capture", *asked, "--layers", "1-2")
    assert code == 0, output
    rows = table(tmp_path / "out")
    assert [row["prompt_tokens"] for row in rows] == [5, 9, 12]
    model, tokenizer = load("embedded")
    with attach(model, tokenizer=tokenizer) as instrument:
        capture = instrument.capture(LAST, answer="B", versus="A", layers=[1, 2])
        saved = load_capture(tmp_path / "out" / rows[2]["file"])
        assert same_tensors(saved, capture)
        edit = Delete(1, (3,))
        (outcome,) = instrument.execute(saved, [edit]).outcomes
    assert saved.predict(edit).effect == capture.predict(edit).effect
    assert torch.isfinite(torch.tensor(outcome.effect))


def test_a_run_that_was_stopped_goes_on_where_it_was(asked, tmp_path, monkeypatch) -> None:
    genuine, ran = many.capture_of, []

    def stopped(question, *rest):
        ran.append(question.prompt)
        if len(ran) == 2:
            raise KeyboardInterrupt
        return genuine(question, *rest)

    monkeypatch.setattr(many, "capture_of", stopped)
    options = ("execute", *asked, "--edit", "delete:1:3")
    CliRunner().invoke(app, [*options, "--quiet"])
    out = tmp_path / "out"
    assert not (out / "table.parquet").exists()
    seal = (out / "units" / "line-00001" / "seal.json").read_bytes()
    (out / "units" / "line-00002.part").mkdir()  # as a kill in the midst of writing leaves it
    (out / "units" / "line-00002.part" / "rows.parquet").write_bytes(b"half")
    assert command(*options)[0] == 0
    assert ran == [line["prompt"] for line in (LINES[0], LINES[1], LINES[1], LINES[2])]
    assert (out / "units" / "line-00001" / "seal.json").read_bytes() == seal
    assert [row["line"] for row in table(out)] == [1, 2, 2, 3]
    assert command(*options)[0] == 0
    assert len(ran) == 4


def test_other_options_and_damaged_rows_are_refused_by_name(asked, tmp_path) -> None:
    options = ("execute", *asked, "--edit", "delete:1:3")
    assert command(*options)[0] == 0
    code, output = command("execute", *asked, "--edit", "delete:2:3")
    assert code == 2
    assert "settings.edits.0: delete:1:3 → delete:2:3" in output
    code, output = command("score", *asked)
    assert code == 2
    assert "settings.command: execute → score" in output
    (tmp_path / "out" / "units" / "line-00003" / "rows.parquet").write_bytes(b"other")
    code, output = command(*options)
    assert code == 2
    assert "units/line-00003/rows.parquet: damaged" in output


BAD = (
    ({"prompt": "A B C", "answer": "A A", "versus": "B"}, "`answer` must be a single token"),
    ({"prompt": "A B C", "answer": "A"}, "give both --answer and --versus, or neither"),
    ({"prompt": "A"}, "`prompt` must be one sequence of at least two token ids"),
    ({"prompt": "A " * 5000}, "`prompt` must fit into the context"),
    ({"prompt": "A B C", "edits": ["delete:1:99"]}, "TOKENS of 'delete:1:99' must lie in"),
    ({"prompt": "A B C", "edits": ["delete:9:1"]}, "LAYER must lie in 0..3"),
    ({"prompt": "A B C", "edits": ["delete:1.9:1"]}, "HEADS must name heads in 0..3"),
    ({"prompt": "A B C", "edits": ['delete:1:"D"']}, "`text` must occur in the prompt"),
    ({"prompt": "A B C", "edits": ["value:1:1:nan"]}, "`factor` of ScaleValues must be"),
)


@pytest.mark.parametrize("bad", [BAD[:5], BAD[5:]], ids=["prompts", "edits"])
def test_prompts_that_cannot_run_are_named_before_any_work(tmp_path, monkeypatch, bad) -> None:
    def work(*_: object, **__: object) -> None:
        raise AssertionError("a prompt was run first")

    monkeypatch.setattr(Instrument, "capture", work)
    path = written(tmp_path, LINES[0], *(line for line, _ in bad), LINES[2])
    out = tmp_path / "out"
    code, output = command("execute", "--prompts", path, "--out", str(out), "--edit", "delete:1:1")
    assert code == 2
    assert f"nothing was run: {len(bad)} of them cannot" in output
    for number, (_, words) in enumerate(bad, start=2):
        assert f"line {number}: {words}" in output
    assert not out.exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["score"], "--prompts needs --out"),
        (["score", "--prompt", "A B", "--out", "out"], "one of --prompt, --prompt-file and"),
        (["score", "--donor-file", "text", "--out", "out"], "--donor-file is of one prompt"),
        (["score", "--out", "."], "must be empty or the directory of a run"),
    ],
    ids=["no folder", "two prompts", "donor", "full folder"],
)
def test_options_that_do_not_go_with_a_file_of_prompts_are_refused(
    tmp_path, monkeypatch, arguments, words
) -> None:
    monkeypatch.chdir(tmp_path)
    code, output = command(*arguments, "--prompts", written(tmp_path, *LINES))
    assert code == 2
    assert words in output


def test_a_mistake_that_only_a_run_shows_names_its_line_and_keeps_the_others(tmp_path) -> None:
    lines = (LINES[0], {"prompt": "A B C", "edits": ["value:1:1:1e39"]})
    asked = ("--prompts", written(tmp_path, *lines), "--out", str(tmp_path / "out"))
    code, output = command("execute", *asked, "--edit", "delete:1:3")
    assert code == 2
    assert "line 2: `edits` must leave finite float32 numbers" in output
    assert [p.name for p in (tmp_path / "out" / "units").iterdir()] == ["line-00001"]
