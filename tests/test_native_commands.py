"""The commands that touch models: a gate with figures, a list with pins, and clear refusals."""

import json

from typer.testing import CliRunner

from finite_calculus.cli import app


def command(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_the_gate_is_open_for_the_embedded_model_and_its_records_are_saved(tmp_path) -> None:
    target = tmp_path / "preflight.json"
    result = command("preflight", "embedded", "--json", str(target), "--batch", "4")
    assert result.exit_code == 0, result.output
    assert result.output.strip().splitlines()[-1] == "gate open"
    saved = json.loads(target.read_text())
    assert saved["fingerprint"]
    assert all(check["passed"] and check["reason"] for check in saved["checks"])


def test_an_unknown_model_is_refused_with_the_names_that_are_known() -> None:
    result = command("preflight", "nonesuch")
    assert result.exit_code == 2
    assert "tiny-qwen2" in " ".join(result.output.replace("│", " ").split())


def test_the_list_of_models_parses_and_pins_the_papers_revisions() -> None:
    rows = {row["name"]: row for row in json.loads(command("models", "--json").output)}
    assert rows["embedded"]["here"]
    assert "7ae557604adf67be50417f59c2c2f167def9a775" in json.dumps(rows["qwen2.5-0.5b-instruct"])
