"""Every command that takes a model takes a folder too, and says why where it cannot."""

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import BloomConfig, BloomForCausalLM
from typer.testing import CliRunner

import finite_calculus
from finite_calculus.checkpoints import load
from finite_calculus.cli import app

PROMPT = "Entity 01: A\nEntity 02: B\nQuestion: What is the label of Entity 02?\nAnswer:"
ASKED = ["--prompt", PROMPT, "--answer", "A", "--versus", "B", "--quiet"]
COMMANDS = {
    "score": ["--layers", "1", "--execute", "1"],
    "execute": ["--edit", "odds:1:3:8", "--edit", "delete:2:4"],
    "steer": ["--layer", "1", "--head", "0", "--ratio", "3:5=2"],
    "evict": ["--layers", "1", "--budget", "0.1"],
    "restore": ["--layers", "1", "--bits", "3", "--count", "1"],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`embedded` under another name."""
    path = tmp_path_factory.mktemp("saved") / "mine"
    for part in load("embedded"):
        part.save_pretrained(path)  # pyright: ignore[reportOptionalMemberAccess]
    return path


@pytest.fixture(scope="module")
def bloom(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A family whose attention the instrument cannot reach, with a tokenizer that fits."""
    path = tmp_path_factory.mktemp("saved") / "bloom"
    _, tokenizer = load("embedded")
    assert tokenizer is not None
    tokenizer.save_pretrained(path)
    config = BloomConfig(vocab_size=len(tokenizer), hidden_size=16, n_layer=2, n_head=2)
    BloomForCausalLM(config).save_pretrained(path)
    return path


def command(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, " ".join(result.output.replace("│", " ").split())


@pytest.mark.parametrize("name", COMMANDS)
def test_a_saved_folder_answers_as_the_named_model_does(name: str, folder: Path, tmp_path) -> None:
    answers = {}
    for model in ("embedded", str(folder)):
        path = tmp_path / "answer.json"
        code, output = command(name, "--model", model, *ASKED, *COMMANDS[name], "--json", str(path))
        assert code == 0, output
        answers[model] = json.loads(path.read_text())
    named, saved = answers["embedded"], answers[str(folder)]
    assert (named.pop("model"), saved.pop("model")) == ("embedded", "mine (folder)")
    first, second = named.pop("fingerprint"), saved.pop("fingerprint")
    assert (first.pop("source"), first.pop("source_name")) == ("name", "embedded")
    assert (second.pop("source"), second.pop("source_name")) == ("folder", "mine")
    assert len(first["weights"]) == 64
    # The same weights; a saved configuration also spells out what was left at its default.
    assert {**first, "config": ""} == {**second, "config": ""}
    assert named == saved


def test_the_preflight_opens_the_gate_of_a_folder_and_records_its_base_name(
    folder, tmp_path
) -> None:
    path = tmp_path / "preflight.json"
    code, output = command("preflight", str(folder), "--only-target", "-q", "--json", str(path))
    assert (code, output) == (0, "gate open: mine (folder)")
    record = json.loads(path.read_text())["models"]["mine (folder)"]["fingerprint"]
    assert (record["source"], record["source_name"]) == ("folder", "mine")
    assert str(folder.parent) not in path.read_text()


@pytest.mark.parametrize("quiet", [[], ["--quiet"]])
def test_a_family_that_cannot_be_measured_shuts_the_gate_with_the_reason(bloom, quiet) -> None:
    code, output = command("preflight", str(bloom), "--only-target", *quiet)
    assert code == 3
    assert "gate SHUT by bloom (folder): support" in output
    assert "does not use the attention interface of transformers" in output


def test_a_family_that_cannot_be_measured_is_refused_by_score(bloom) -> None:
    code, output = command("score", "--model", str(bloom), *ASKED)
    assert code == 2
    assert "does not use the attention interface of transformers" in output


def test_a_folder_without_a_tokenizer_is_refused_where_a_text_is_given(tmp_path) -> None:
    load("tiny-llama")[0].save_pretrained(tmp_path / "bare")
    code, output = command("score", "--model", str(tmp_path / "bare"), *ASKED)
    assert code == 2
    assert "bare (folder) has no tokenizer, and a prompt is text." in output
    code, output = command("preflight", str(tmp_path / "bare"), "--only-target", "--quiet")
    assert (code, output) == (0, "gate open: bare (folder)")


@pytest.mark.parametrize("name", [*COMMANDS, "preflight"])
def test_a_spec_that_means_nothing_is_refused_with_the_known_names(name: str) -> None:
    asked = ["tiny-quen2"] if name == "preflight" else [*ASKED, *COMMANDS[name]]
    code, output = command(
        name, *asked, *([] if name == "preflight" else ["--model", "tiny-quen2"])
    )
    assert code == 2
    assert "Did you mean tiny-qwen2" in output
    assert "smollm2-135m-instruct" in output


@pytest.mark.parametrize("name", ["score", "preflight"])
def test_a_folder_with_pickles_only_is_refused_by_the_commands(name: str, tmp_path) -> None:
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "pytorch_model.bin").write_bytes(b"")
    where = [str(tmp_path)] if name == "preflight" else ["--model", str(tmp_path), *ASKED]
    code, output = command(name, *where)
    assert code == 2
    assert "A pickle can run any code" in output


LISTING = """
from typer.testing import CliRunner
from finite_calculus.cli import app
assert CliRunner().invoke(app, ["models", "--json"]).exit_code == 0
"""
HELP = """
from typer.main import get_command
from typer.testing import CliRunner
from finite_calculus.cli import app
names = list(get_command(app).commands)
assert {"score", "evict", "steer", "preflight", "run"} <= set(names)
# The help of `execute` may name every edit, and edits belong to the package of models.
for words in ([], *([name] for name in names if name != "execute")):
    assert CliRunner().invoke(app, [*words, "--help"]).exit_code == 0, words
"""
LIGHT = {
    "the calculus": "import finite_calculus",
    "the checkpoints": "import finite_calculus.checkpoints",
    "the commands": "import finite_calculus.cli",
    "the harness": "import finite_calculus.harness.summary, finite_calculus.harness.status",
    "a study": "import finite_calculus.studies.joint_kv",
    "an architecture": "from finite_calculus.checkpoints import architecture; architecture('embedded')",
    "a meaning": "from finite_calculus.checkpoints import resolve; resolve('owner/name')",
    "the list of models": LISTING,
    "help of the commands": HELP,
}


def heavy_modules_of(program: str) -> str:
    """Those of the heavy modules that a fresh interpreter holds after a program."""
    heavy = ("transformers", "safetensors", "tokenizers")
    last = f"import sys; print(*(name for name in {heavy} if name in sys.modules))"
    words = [sys.executable, "-c", f"{program}\n{last}"]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize("what", LIGHT)
def test_what_needs_no_model_imports_no_transformers(what: str) -> None:
    assert heavy_modules_of(LIGHT[what]) == ""


def test_loading_imports_transformers_so_that_the_test_above_can_fail() -> None:
    assert "transformers" in heavy_modules_of("from finite_calculus.checkpoints import load")


def test_only_the_packages_of_models_import_transformers_by_themselves() -> None:
    root = Path(finite_calculus.__file__).parent
    packages = {
        path.relative_to(root).parts[0]
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if "transformers" in _imports(node)
    }
    # A cache that shrinks is one of transformers' own.
    assert packages == {"models", "checkpoints", "cache"}


def _imports(node: ast.AST) -> set[str]:
    """The packages that a statement imports."""
    if isinstance(node, ast.ImportFrom):
        return {str(node.module).split(".")[0]}
    return (
        {name.name.split(".")[0] for name in node.names} if isinstance(node, ast.Import) else set()
    )
