"""The commands of a search: tables for people, JSON for programs, errors that say what to do."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from finite_calculus.cli import app

PROMPT = "Entity 01: A\nEntity 02: B\nQuestion: What is the label of Entity 02?\nAnswer:"
ASKED = ["--chat", "--answer", "A", "--versus", "B", "--quiet"]


@pytest.fixture
def prompt(tmp_path: Path) -> list[str]:
    path = tmp_path / "prompt.txt"
    path.write_text(PROMPT)
    return ["--prompt-file", str(path)]


def command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def run(name: str, *arguments: str, out: Path, code: int = 0) -> dict:
    path = out / f"{name}.json"
    exit_code, output = command(name, *ASKED, *arguments, "--json", str(path))
    assert exit_code == code, output
    return json.loads(path.read_text())


def test_score_ranks_certifies_and_executes(prompt, tmp_path) -> None:
    saved = run("score", *prompt, "--layers", "1-2", "--top", "4", "--execute", "2", out=tmp_path)
    assert saved["candidates"] == 15 * 2 * saved["tokens"]
    assert saved["certified_signs"] > 0
    assert 0 < saved["certified_pairs"] < saved["pairs"]
    quantiles = list(saved["tightness"].values())
    assert 1 <= quantiles[0] < quantiles[-1]
    assert quantiles == sorted(quantiles)
    certain = [_certain(row) for row in saved["rows"]]
    assert certain == sorted(certain, reverse=True)
    assert ["executed" in row for row in saved["rows"]] == [True, True, False, False]
    for row in saved["executed"]:
        assert row["executed"]["local"]["error"] <= row["executed"]["local"]["bound"]


def _certain(row: dict) -> float:
    if "sampled" in row:
        return abs(row["sampled"])
    return max(0.0, abs(row["second"]) - row["band"]) if row["trusted"] else 0.0


def test_score_without_a_sample_ranks_by_prediction(prompt, tmp_path) -> None:
    options = ["--layers", "2", "--no-certify", "--no-sample", "--curvature", "0"]
    saved = run("score", *prompt, *options, out=tmp_path)
    effects = [abs(row["effect"]) for row in saved["rows"]]
    assert effects == sorted(effects, reverse=True)
    assert {row["second"] for row in saved["rows"]} == {row["trusted"] for row in saved["rows"]}
    assert saved["rows"][0]["trusted"] is None
    assert "sampled" not in saved


def test_the_cliff_of_the_readme_is_marked_and_shown_with_its_execution(prompt, tmp_path) -> None:
    out = tmp_path / "score.json"
    code, output = command(
        "score", *ASKED, *prompt, "--no-certify", "--top", "8", "--json", str(out)
    )
    assert code == 0
    rows = json.loads(out.read_text())["rows"]
    (row,) = [r for r in rows if (r["layer"], r["text"], r["kind"]) == (0, "02", "delete")]
    assert abs(row["second"]) < 1 < 10 < row["sampled"]
    assert row["trusted"] is False
    assert row["size"] > 1
    assert " ?" in output


def test_a_budget_says_what_may_have_been_missed(prompt, tmp_path) -> None:
    options = ["--layers", "2", "--no-certify", "--execute", "2", "--budget", "200"]
    saved = run("score", *prompt, *options, out=tmp_path)
    assert 0 <= saved["missed"] <= 1
    assert saved["stopped"] == ("calibrated" if saved["missed"] <= 0.05 else "budget")


def test_a_saved_run_names_its_command_and_versions(prompt, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("sys.argv", ["anywhere", "score", "--answer", " A"])
    saved = run("score", *prompt, "--layers", "1", out=tmp_path)
    assert saved["command"] == "finite-calculus score --answer ' A'"
    assert saved["made_with"].keys() == {"finite_calculus", "torch", "transformers"}
    assert saved["schema"] == 1


def test_score_takes_spans_sweeps_donors_sides_and_a_budget(prompt, tmp_path) -> None:
    base = [*prompt, "--layers", "2", "--no-certify"]
    spans = run("score", *base, "--span", "3", "--odds", "2,8", out=tmp_path)
    assert spans["candidates"] == 2 * (spans["tokens"] - 2)
    assert len(spans["rows"][0]["tokens"]) == 3
    donor = tmp_path / "donor.txt"
    donor.write_text(PROMPT.replace("02: B", "02: A"))
    sided = ["--towards", "versus", "--donor-file", str(donor)]
    saved = run("score", *base, *sided, "--float32", out=tmp_path)
    assert saved["candidates"] == 3 * saved["tokens"]
    assert saved["rows"][0]["effect"] <= saved["rows"][-1]["effect"]
    plain = [*base, "--no-sample"]
    settled = run("score", *plain, "--execute", "2", "--budget", "8", out=tmp_path)
    assert settled["stopped"] in ("settled", "budget")
    assert 2 <= len(settled["executed"]) <= 8


def test_execute_shows_predicted_and_executed(prompt, tmp_path) -> None:
    edits = ["odds:1:11:4", "delete:2:3-4", "fast:2:5:-16", "value:1:11:0", "bits:1:2,4:3"]
    options = [part for edit in edits for part in ("--edit", edit)]
    saved = run("execute", *prompt, *options, out=tmp_path)
    assert [row["edit"] for row in saved["rows"]] == edits
    assert [row["tokens"] for row in saved["rows"]] == [[11], [3, 4], [5], [11], [2, 4]]
    assert all("effect" in row["executed"] for row in saved["rows"])
    bent = run("execute", *prompt, *options, "--curvature", "4", out=tmp_path)
    assert all(row["second"] is None for row in saved["rows"])
    assert all(0 <= row["trust"] <= 1 for row in bent["rows"])


def test_execute_finds_text_takes_heads_and_edits_several_layers_together(prompt, tmp_path) -> None:
    edits = ['delete:1:"Entity 01"', "value:2.0,3:11:0"]
    options = [part for edit in edits for part in ("--edit", edit)]
    each = run("execute", *prompt, *options, out=tmp_path)
    text = "".join(row["text"] for row in each["rows"][:1])
    assert text.strip() == "Entity 01"
    assert all(row["executed"]["local"]["beyond"] == 0 for row in each["rows"])
    together = run("execute", *prompt, *options, "--together", out=tmp_path)["together"]
    assert together["layers_edited"] == [1, 2]
    assert together["effect"] == pytest.approx(sum(row["effect"] for row in each["rows"]))
    assert together["executed"] != 0
    assert "second" not in together
    options += ["--curvature", "4"]
    each = run("execute", *prompt, *options, out=tmp_path)
    bent = run("execute", *prompt, *options, "--together", out=tmp_path)["together"]
    assert bent["cross"] != 0
    apart = sum(row["second"] for row in each["rows"])
    # Second-order terms are float32.
    assert bent["second"] - bent["cross"] == pytest.approx(apart, rel=1e-5)


def test_execute_asks_for_an_answer_of_several_tokens_and_for_a_divergence(
    prompt, tmp_path
) -> None:
    out = tmp_path / "out.json"
    asked = ["--chat", "--quiet", *prompt, "--edit", "delete:1:11", "--json", str(out)]
    code, output = command("execute", *asked, "--objective", "log-probability", "--answer", "B A B")
    assert code == 0, output
    (row,) = json.loads(out.read_text())["rows"]
    assert len(row["executed"]["local"]) > 1
    assert all(local["beyond"] == 0 for local in row["executed"]["local"])
    code, output = command("execute", *asked, "--objective", "divergence", "--readers", "20-24")
    assert code == 0, output
    saved = json.loads(out.read_text())
    assert saved["readers"] == [20, 24]
    assert len(saved["rows"][0]["executed"]["local"]) == 5
    assert saved["rows"][0]["executed"]["effect"] > 0


def test_steer_shows_the_ratios_that_were_achieved(prompt, tmp_path) -> None:
    arguments = ["--layer", "2", "--head", "1", "--ratio", "5:7=4", "--shift", "5:16"]
    saved = run("steer", *prompt, *arguments, out=tmp_path)
    assert saved["feasible"]
    assert saved["achieved"][0] == pytest.approx(4.0, rel=1e-4)
    assert saved["preserving"]["kept"] == 72
    requests = [f"{t}:0={2 + t % 3}" for t in range(1, 29)]
    options = [part for request in requests for part in ("--ratio", request)]
    failed = run("steer", *prompt, "--layer", "2", "--head", "1", *options, out=tmp_path, code=1)
    assert not failed["feasible"]


def test_evict_and_restore_report_what_they_did(prompt, tmp_path) -> None:
    plans = run(
        "evict", *prompt, "--layers", "1,3", "--budget", "0.05", "--protect", "0", out=tmp_path
    )
    for plan in plans["evictions"]:
        assert plan["figure"] <= plan["budget"]
        assert 0 not in plan["tokens"]
        assert plan["local"]["error"] <= plan["local"]["bound"]
    arguments = ["--fraction", "0.5", "--window", "4", "--shared", "--layers", "1,3"]
    target = tmp_path / "unasked.json"
    code, output = command("evict", "--chat", *prompt, *arguments, "--json", str(target))
    assert code == 0, output
    unasked = json.loads(target.read_text())
    assert "planned 4/4" in output
    assert unasked["answer"].startswith("#")
    assert unasked["baseline"] > 0
    plans = unasked["evictions"]
    assert sum(len(plan["tokens"]) for plan in plans) == 2 * (unasked["tokens"] // 2)
    assert all(len(plan["distortions"]) == 4 and plan["divergence"] >= 0 for plan in plans)
    arguments = ["--layers", "1", "--bits", "2", "--count", "2", "--generate", "2"]
    repairs = run("restore", *prompt, *arguments, out=tmp_path)
    assert len(repairs["repairs"][0]["restored"]) == 2
    assert repairs["generated"]["ordinary"] == "B"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["score", "--answer", "A", "--versus", "B"], "exactly one of --prompt and --prompt-file"),
        (["score", "--answer", "A", "--versus", "B", "--prompt", " "], "the prompt is empty"),
        (["score", "--answer", "A", "--versus", "A", "--prompt", "A B"], "different tokens"),
        (["score", "--answer", "Paris", "--versus", "A", "--prompt", "A B"], "single token"),
        (["score", "--answer", "#99999", "--versus", "A", "--prompt", "A B"], "token id in"),
        (["score", *ASKED, "--prompt", "A B", "--layers", "9"], "--layers must lie in 0..3"),
        (["score", *ASKED, "--prompt", "A B", "--layers", "x"], "must be a whole number"),
        (["score", *ASKED, "--prompt", "A B", "--towards", "up"], "--towards must be"),
        (["score", *ASKED, "--prompt-file", "/nonesuch"], "cannot read the prompt"),
        (["score", *ASKED, "--prompt", "A B", "--model", "nonesuch"], "embedded"),
        (["execute", *ASKED, "--prompt", "A B", "--edit", "spin:1:2"], "An edit must be"),
        (["execute", *ASKED, "--prompt", "A B", "--edit", "odds:1:2:x"], "must be a number"),
        (
            ["execute", *ASKED, "--prompt", "A B", "--edit", "odds:1:99:2"],
            "TOKENS of 'odds:1:99:2' must lie in 0..",
        ),
        (["execute", *ASKED, "--prompt", "A B", "--edit", "odds:9:1:2"], "LAYER must lie in 0..3"),
        (["execute", *ASKED, "--prompt", "A B"], "give at least one --edit"),
        (["score", *ASKED, "--prompt", "A B", "--odds", "2,x"], "--odds must be numbers"),
        (
            ["steer", *ASKED, "--prompt", "A B", "--layer", "1", "--head", "0", "--ratio", "1=2"],
            "ABOVE:BELOW=RATIO",
        ),
        (
            ["steer", *ASKED, "--prompt", "A B", "--layer", "1", "--head", "0", "--ratio", "1:1=2"],
            "two different tokens",
        ),
        (["execute", *ASKED, "--prompt", "A B", "--edit", "bits:1:1:4.9"], "bits must be a whole"),
        (
            ["execute", *ASKED, "--prompt", "A B", "--edit", 'delete:1:"C"'],
            "must occur in the prompt",
        ),
        (
            ["execute", *ASKED, "--prompt", "A B", "--edit", "delete:1.99:1"],
            "HEADS must name heads in",
        ),
        (
            ["execute", "--answer", "A", "--prompt", "A B", "--edit", "delete:1:1"],
            "give both --answer and --versus",
        ),
        (
            ["execute", *ASKED, "--prompt", "A B", "--edit", "delete:1:1", "--objective", "mood"],
            "--objective must be one of",
        ),
        (
            ["execute", *ASKED, "--edit", "delete:1:1", "--together", "--readers", "2"],
            "--together takes the margin",
        ),
        (
            ["execute", *ASKED, "--edit", "delete:1:1", "--readers", "2", "--curvature", "2"],
            "--curvature is of the margin",
        ),
        (
            ["execute", *ASKED, "--prompt", "A B", "--edit", "delete:1:1", "--readers", "x"],
            "--readers must be a number",
        ),
        (["evict", *ASKED, "--prompt", "A B", "--budget", "-1"], "Invalid value for '--budget'"),
        (["evict", *ASKED, "--prompt", "A B", "--budget", "nan"], "Invalid value for '--budget'"),
        (["evict", *ASKED, "--prompt", "A B", "--protect", "99"], "--protect must lie in 0.."),
        (["evict", *ASKED, "--prompt", "A B", "--protect", "x"], "must be a whole number"),
        (["evict", *ASKED, "--prompt", "A B", "--count", "99"], "`count` must be between 0"),
        (["evict", *ASKED, "--prompt", "A B", "--over", "most"], "`over` must be one of"),
        (["evict", "--prompt", "A B", "--answer", "A"], "both --answer and --versus, or neither"),
        (["restore", *ASKED, "--prompt", "A B", "--count", "999"], "`count` must be between"),
    ],
)
def test_mistakes_are_refused_with_what_to_do(arguments: list[str], message: str) -> None:
    code, output = command(*arguments)
    assert code == 2
    assert message in output


@pytest.mark.parametrize("name", ["score", "execute", "steer", "evict", "restore"])
def test_help_shows_an_example_on_a_real_checkpoint(name: str) -> None:
    code, output = command(name, "--help")
    assert code == 0
    assert f"finite-calculus {name} --model smollm2-135m-instruct" in output
