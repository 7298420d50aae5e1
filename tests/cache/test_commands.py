"""`kv-error`, `compare-cache` and `preflight --transform` from the command line."""

import json

import pytest
from typer.testing import CliRunner

from finite_calculus.cli import app

PROMPT = [
    "--prompt",
    "Entity 01: A\nEntity 02: B\nQuestion: What is the label of Entity 02?\nAnswer:",
]


def command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


def test_kv_error_lists_layers_and_heads_heaviest_first(tmp_path) -> None:
    out = str(tmp_path / "out.json")
    code, output = command(
        "kv-error",
        *PROMPT,
        "--transform",
        "asym2/channel,vector",
        "--top",
        "3",
        "-q",
        "--json",
        out,
    )
    assert code == 0, output
    assert "the heaviest 3 of" in output
    error = json.loads((tmp_path / "out.json").read_text())["error"]
    means = [sum(x["relative"]) / len(x["relative"]) for x in error["layers"]]
    assert means == sorted(means, reverse=True)
    assert means[-1] > 0
    assert error["divergence"] > 0


def test_a_policy_is_emitted_and_restore_applies_it(tmp_path) -> None:
    path, out = tmp_path / "policy.json", tmp_path / "out.json"
    code, output = command(
        *("kv-error", *PROMPT, "--emit-policy", str(path), "--budget", "4.8"),
        *("--rounding", "sym/vector", "--window", "4", "-q", "--json", str(out)),
    )
    assert code == 0, output
    assert "bits within 4.8 a number" in output
    found = json.loads(out.read_text())
    assert 0 < found["policy"]["bits"] <= 4.8
    assert found["transform"] == "policy.json"
    applied = tmp_path / "applied.json"
    code, output = command(
        *("restore", *PROMPT, "--policy", str(path), "--window", "4", "--generate", "2"),
        *("-q", "--json", str(applied)),
    )
    assert code == 0, output
    again = json.loads(applied.read_text())
    assert again["error"] == found["error"]
    assert again["generated"]["ordinary"]
    code, output = command("restore", *PROMPT, "--policy", str(path), "--bits", "2")
    assert code == 2
    assert "comes without --bits" in output


def test_compare_cache_says_rounding_or_where(tmp_path) -> None:
    run = str(tmp_path / "run.safetensors")
    code, output = command("compare-cache", *PROMPT, "--chunk", "3", "--save-run", run)
    assert code == 0, output
    assert "rounding: every difference" in output

    from safetensors.torch import load_file, save_file

    tensors = load_file(run)
    tensors["layers.2.values"][1] *= 1.01
    save_file(tensors, run)
    out = tmp_path / "out.json"
    code, output = command("compare-cache", *PROMPT, "--other", run, "--json", str(out))
    assert code == 1
    assert "first in the values of layer 2, heads [1]" in output
    assert "a scale of 1.01" in output
    assert json.loads(out.read_text())["first"]["layer"] == 2


def test_preflight_is_a_gate_for_transforms(tmp_path) -> None:
    junit = tmp_path / "junit.xml"
    code, output = command(
        "preflight",
        "embedded",
        "--transform",
        "sym8/vector",
        "--allow",
        "0.1",
        "--junit",
        str(junit),
    )
    assert code == 0, output
    assert "testsuite" in junit.read_text()
    out = tmp_path / "out.json"
    code, output = command(
        "preflight", "embedded", "--transform", "sym2/vector", "--json", str(out)
    )
    assert code == 3
    assert "FAILED no change beyond rounding" in output
    assert not json.loads(out.read_text())["passed"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["kv-error", *PROMPT, "--transform", "sym1/vector"], "`bits` must be between 2 and 8"),
        (["kv-error", *PROMPT, "--emit-policy", "nowhere.json"], "needs --budget"),
        (
            ["kv-error", *PROMPT, "--emit-policy", "x.json", "--budget", "1", "--rounding", "odd"],
            "--rounding must be",
        ),
        (["compare-cache", *PROMPT, "--precision", "int3"], "`precision` must be one of"),
        (["preflight", "embedded", "--transform", "nonesuch:f"], "cannot be had"),
    ],
)
def test_mistakes_are_refused(arguments: list[str], message: str) -> None:
    code, output = command(*arguments)
    assert code == 2
    assert message in output
