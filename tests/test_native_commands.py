"""The commands that touch models: a gate with figures, a list with pins, and clear refusals."""

import json
import re
from pathlib import Path

from typer.testing import CliRunner

from finite_calculus.cli import app


def command(*arguments: str):
    return CliRunner().invoke(app, list(arguments))


def test_the_gate_is_open_for_the_tiny_models_and_the_embedded_one_and_records_are_saved(
    tmp_path,
) -> None:
    target = tmp_path / "new" / "preflight.json"
    result = command("preflight", "embedded", "--json", str(target), "--batch", "4")
    assert result.exit_code == 0, result.output
    lines = result.output.strip().splitlines()
    assert lines[-1] == "gate open: tiny-qwen2, tiny-llama, embedded"
    saved = json.loads(target.read_text())
    assert saved["passed"]
    assert list(saved["models"]) == ["tiny-qwen2", "tiny-llama", "embedded"]
    for name, report in saved["models"].items():
        assert name in lines
        assert len(report["fingerprint"]["weights"]) == 64
        assert all(check["passed"] and check["reason"] for check in report["checks"])


def test_the_target_alone_can_be_checked() -> None:
    result = command("preflight", "tiny-llama", "--only-target", "--quiet")
    assert (result.exit_code, result.output.strip()) == (0, "gate open: tiny-llama")


def test_a_shut_gate_exits_with_three_and_names_the_check_and_the_model(
    monkeypatch, tmp_path
) -> None:
    from finite_calculus.models.prefix import SharedLayer

    genuine = SharedLayer.get_seq_length
    monkeypatch.setattr(SharedLayer, "get_seq_length", lambda self: genuine(self) + 1)
    target = tmp_path / "preflight.json"
    result = command("preflight", "tiny-llama", "--quiet", "--json", str(target))
    assert result.exit_code == 3
    assert result.output.startswith("gate SHUT by tiny-qwen2: ")
    assert "tiny-llama: full against cached" in result.output
    assert "tiny-llama: full against cached" in json.loads(target.read_text())["failed"]


def test_an_unknown_model_is_refused_with_the_names_that_are_known() -> None:
    result = command("preflight", "nonesuch")
    assert result.exit_code == 2
    assert "tiny-qwen2" in " ".join(result.output.replace("│", " ").split())


def test_the_list_of_models_parses_and_pins_the_papers_revisions() -> None:
    rows = {row["name"]: row for row in json.loads(command("models", "--json").output)["models"]}
    assert rows["embedded"]["here"]
    assert "7ae557604adf67be50417f59c2c2f167def9a775" in json.dumps(rows["qwen2.5-0.5b-instruct"])


def test_committed_records_are_open_and_hold_no_path_of_a_machine() -> None:
    records = sorted((Path(__file__).parents[1] / "results" / "preflight").glob("*.json"))
    assert {path.stem for path in records} >= {"embedded", "smollm2-135m-instruct", "stories15m"}
    for path in records:
        text = path.read_text(encoding="utf-8")
        saved = json.loads(text)
        assert saved["passed"]
        (model,) = saved["models"]
        assert path.stem in {model, f"{model}-bfloat16", f"{model}-float16"}
        assert not re.search(r"/(home|root|work|tmp|usr|Users)/|[A-Z]:\\\\", text)
