"""What the registry says of each checkpoint, and what is said of what is here."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from finite_calculus.checkpoints import KNOWN, available, cache_directory, checkpoint, listing
from finite_calculus.checkpoints.commands import models_command
from finite_calculus.checkpoints.registry import Hub, Packaged
from finite_calculus.checkpoints.status import packaged_directory

PACKAGE = Path(__file__).parents[2] / "finite_calculus" / "checkpoints"
NAMES = [
    "embedded",
    "tiny-qwen2",
    "tiny-llama",
    "smollm2-135m-instruct",
    "stories15m",
    "tinyllama-1.1b",
    "qwen2.5-0.5b",
    "qwen2.5-0.5b-instruct",
    "qwen2.5-1.5b-instruct",
]


def test_the_registry_knows_these_checkpoints_in_this_order():
    assert list(KNOWN) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_every_source_is_pinned_in_full(name: str):
    source = KNOWN[name].source
    if isinstance(source, Packaged):
        hashes = [source.sha256, *(archive.sha256 for archive in source.archives)]
        assert all(re.fullmatch("[0-9a-f]{64}", value) for value in hashes)
        assert all(re.fullmatch(r"\d+\.\d+\.\d+", archive.version) for archive in source.archives)
    if isinstance(source, Hub):
        assert re.fullmatch("[0-9a-f]{40}", source.revision)
        assert source.revision_from


@pytest.mark.parametrize("name", NAMES)
def test_every_architecture_is_possible(name: str):
    shape = KNOWN[name].architecture
    assert shape.heads % shape.groups == 0
    assert shape.head_width % 2 == 0
    assert shape.biases == (shape.family == "qwen2")


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(
        ValueError, match=r"known checkpoint; got 'gpt-5'\. Choose one of embedded, "
    ):
        checkpoint("gpt-5")


def test_no_address_of_a_registry_is_written_anywhere():
    texts = [path.read_text() for path in PACKAGE.glob("*.py")]
    assert [text for text in texts if "://" in text] == []


def test_an_empty_cache_has_what_needs_no_network_and_nothing_else(tmp_path: Path):
    here = [row.name for row in listing(cache=tmp_path) if row.here]
    assert here == ["embedded", "tiny-qwen2", "tiny-llama"]
    assert [name for name in NAMES if available(name, cache=tmp_path)] == here


def test_only_packaged_checkpoints_have_a_converted_directory(tmp_path: Path):
    with pytest.raises(
        ValueError, match=r"`known` must come from a registry package; got 'embedded'"
    ):
        packaged_directory(KNOWN["embedded"], tmp_path)


def test_the_cache_is_the_argument_then_the_variable_then_the_platforms_place(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("FINITE_CALCULUS_CACHE", str(tmp_path / "variable"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_directory(tmp_path / "argument") == tmp_path / "argument"
    assert cache_directory() == tmp_path / "variable"
    monkeypatch.delenv("FINITE_CALCULUS_CACHE")
    assert cache_directory() == tmp_path / "xdg" / "finite-calculus"


@pytest.mark.parametrize(
    ("platform", "expected"),
    [("linux", ".cache"), ("darwin", "Library/Caches"), ("win32", "local")],
)
def test_every_platform_has_a_place_for_caches(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, platform: str, expected: str
):
    for variable in ("FINITE_CALCULUS_CACHE", "XDG_CACHE_HOME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    monkeypatch.setattr(sys, "platform", platform)
    assert cache_directory() == tmp_path / expected / "finite-calculus"


def test_the_command_prints_every_name_as_a_table_and_every_pin_as_json(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setenv("COLUMNS", "80")
    models_command(cache=tmp_path)
    table = capsys.readouterr().out
    assert all(name in table for name in NAMES)
    assert str(tmp_path) in table
    assert "Apache-2.0" in table
    models_command(json=True, cache=tmp_path)
    rows = json.loads(capsys.readouterr().out)["models"]
    assert [row["name"] for row in rows] == NAMES
    assert "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53" in rows[3]["pinned"]


def test_listing_the_checkpoints_does_not_import_transformers():
    program = (
        "import sys; from finite_calculus.checkpoints import listing; listing(); "
        "print('transformers' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_the_package_has_no_other_lazy_attribute_than_load():
    import finite_calculus.checkpoints as checkpoints

    assert callable(checkpoints.load)
    with pytest.raises(AttributeError, match="no attribute 'download'"):
        _ = checkpoints.download
