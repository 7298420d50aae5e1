"""What a model may be asked for by, and what each spelling means."""

from pathlib import Path

import pytest

from finite_calculus.checkpoints import KNOWN, resolve
from finite_calculus.checkpoints.spec import Folder, HubModel


def test_a_known_name_wins_even_over_a_folder_of_that_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "embedded").mkdir()
    monkeypatch.chdir(tmp_path)
    assert resolve("embedded") is KNOWN["embedded"]
    assert resolve("./embedded") == Folder(Path("embedded"))


def test_what_exists_or_is_written_as_a_path_is_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    (tmp_path / "owner" / "name").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolve("owner/name") == Folder(Path("owner/name"))
    assert resolve("~/owner") == Folder(tmp_path / "owner")
    for written in (".", "../elsewhere", str(tmp_path / "missing"), "~no-such-user/there"):
        assert resolve(written) == Folder(Path(written))


def test_a_path_object_is_a_folder_whatever_its_name():
    assert resolve(Path("embedded")) == Folder(Path("embedded"))
    assert resolve(Path("owner/name")) == Folder(Path("owner/name"))


def test_a_folder_is_recorded_by_its_base_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "model").mkdir()
    monkeypatch.chdir(tmp_path / "model")
    assert Folder(Path(".")).name == "model"


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ("owner/name", HubModel("owner/name")),
        ("owner/name@main", HubModel("owner/name", "main")),
        ("Qwen/Qwen2.5-0.5B@refs/pr/3", HubModel("Qwen/Qwen2.5-0.5B", "refs/pr/3")),
        (f"owner/name@{'0a' * 20}", HubModel("owner/name", "0a" * 20)),
    ],
)
def test_owner_and_name_are_a_hub_id_with_an_optional_revision(spec: str, expected: HubModel):
    assert resolve(spec) == expected


@pytest.mark.parametrize(
    "spec",
    [
        *("", "gpt-5", "a/b/c", "owner/name@", "owner/name@../x", "owner name/x", "https:x/y"),
        *("a" * 5000, "nul\0"),
    ],
)
def test_anything_else_is_refused_with_what_was_tried(spec: str):
    said = r"known name, a folder or a hub id; got .*no such folder.*owner/name@revision"
    with pytest.raises(ValueError, match=said):
        resolve(spec)


def test_a_name_that_is_nearly_known_is_suggested():
    with pytest.raises(ValueError, match=r"Did you mean tiny-llama"):
        resolve("tiny-lama")
