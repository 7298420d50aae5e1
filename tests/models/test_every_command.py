"""Families whose attention is unusual, in every command that runs a model, in float32 and half precision.

A tiny model of each is saved as a folder and asked as a user would ask it; the preflight of all families
is in test_preflight and test_half.
"""

import json
from pathlib import Path

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from finite_calculus.cli import app
from finite_calculus.models.precision import cast_weights, precision_of
from finite_calculus.models.tiny import tiny_model

# Sinks; chunks and normalised keys; the text decoder of a multimodal model; a cache of latents.
CASES = (
    ("gpt_oss", "float16"),
    ("llama4_text", "float32"),
    ("qwen2_5_vl", "float16"),
    ("deepseek_v2", "float32"),
)
PROMPT = ("--prompt", "the red cat sat on a blue mat . the dog sat on the")
SIDES = ("--answer", "cat", "--versus", "log")
# Words of every command that takes a model and a precision, as they follow its name and the model.
ASKED = {
    "score": ((*PROMPT, *SIDES, "--top", "2", "--execute", "2"),),
    "execute": (
        (*PROMPT, *SIDES, "--edit", "odds:2:9:4", "--edit", "value:2.1:9:0"),
        (*PROMPT, *SIDES, "--edit", "odds:1:9:4", "--edit", "delete:2:9", "--together"),
        (*PROMPT, *("--objective", "log-probability", "--answer", "cat sat"), "--edit", "delete:2:9"),
    ),
    "steer": ((*PROMPT, *SIDES, "--layer", "2", "--head", "1", "--ratio", "8:9=4"),),
    "evict": ((*PROMPT, "--budget", "0.5"),),
    "restore": ((*PROMPT, *SIDES),),
    "kv-error": (
        (*PROMPT, "--transform", "sym8/vector"),
        (*PROMPT, "--emit-policy", "policy.json", "--budget", "8"),
    ),
    "compare-cache": ((*PROMPT, "--chunk", "2"),),
    "capture": (("--prompts", "prompts.jsonl", *SIDES, "--out", "captures"),),
}  # fmt: skip
# Commands that read or rewrite the cache itself.
OF_THE_CACHE = {"kv-error", "compare-cache"}
# Tested where they are: they need a page, a trained model or none.
ELSEWHERE = {"preflight", "explore", "repair", "audit"}


def test_every_command_with_a_precision_is_asked() -> None:
    group = get_command(app)
    commands = {name: {p.name for p in c.params} for name, c in group.commands.items()}  # type: ignore[attr-defined]
    assert {name for name, names in commands.items() if "dtype" in names} == set(ASKED) | ELSEWHERE


@pytest.mark.parametrize(("family", "dtype"), CASES)
def test_commands_run_on_the_family(
    family: str, dtype: str, tokenizer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = cast_weights(tiny_model(family), precision_of(dtype).dtype)
    model.save_pretrained(tmp_path / family)
    tokenizer.save_pretrained(tmp_path / family)
    (tmp_path / "prompts.jsonl").write_text(json.dumps({"prompt": PROMPT[1]}) + "\n")
    monkeypatch.chdir(tmp_path)
    for command, several in ASKED.items():
        for words in several:
            asked = [command, "--model", f"./{family}", "--dtype", dtype, "--quiet", *words]
            result = CliRunner().invoke(app, asked)
            refused = family.startswith("deepseek") and command in OF_THE_CACHE
            assert result.exit_code == (2 if refused else 0), (
                f"{' '.join(asked)}\n{result.output}\n{result.exception!r}"
            )
            if refused:
                told = " ".join(result.output.replace("│", " ").split())
                assert "needs a cache of keys and values" in told
