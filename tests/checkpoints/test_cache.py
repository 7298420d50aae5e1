"""Converted checkpoints: put in place whole, and refused when a byte has changed."""

from pathlib import Path

import pytest

from finite_calculus.checkpoints import CheckpointError
from finite_calculus.checkpoints.cache import MANIFEST, put, sha256_of, verify

SOURCE = "5" * 64


def fill(directory: Path) -> None:
    (directory / "model.safetensors").write_bytes(b"weights")
    (directory / "config.json").write_text("{}")


@pytest.fixture
def converted(tmp_path: Path) -> Path:
    directory = tmp_path / "model" / "pin"
    put(directory, SOURCE, fill)
    return directory


def test_what_was_put_is_verified_and_nothing_else_is_left(converted: Path):
    verify(converted, SOURCE)
    assert [path.name for path in converted.parent.iterdir()] == ["pin"]


def test_a_changed_byte_is_refused_with_both_hashes_and_what_to_do(converted: Path):
    before = sha256_of(converted / "model.safetensors")
    (converted / "model.safetensors").write_bytes(b"weightz")
    after = sha256_of(converted / "model.safetensors")
    said = rf"model\.safetensors has sha256 {after}; its manifest says {before}\. Remove .*pin and load"
    with pytest.raises(CheckpointError, match=said):
        verify(converted, SOURCE)


def test_a_file_that_the_manifest_does_not_list_is_refused(converted: Path):
    (converted / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(CheckpointError, match=r"differ in the files pytorch_model\.bin"):
        verify(converted, SOURCE)


def test_a_missing_file_is_refused(converted: Path):
    (converted / "config.json").unlink()
    with pytest.raises(CheckpointError, match=r"differ in the files config\.json"):
        verify(converted, SOURCE)


def test_a_conversion_of_another_source_is_refused(converted: Path):
    with pytest.raises(CheckpointError, match=f"sha256 {SOURCE}; the registry pins {'6' * 64}"):
        verify(converted, "6" * 64)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"files": 3, "source_sha256": ""}'])
def test_a_damaged_manifest_is_refused(converted: Path, text: str):
    (converted / MANIFEST).write_text(text)
    with pytest.raises(CheckpointError, match=r"manifest\.json cannot be read: .*Remove"):
        verify(converted, SOURCE)


def test_a_failed_conversion_leaves_nothing(tmp_path: Path):
    def fail(directory: Path) -> None:
        fill(directory)
        raise KeyError("half way")

    with pytest.raises(KeyError):
        put(tmp_path / "pin", SOURCE, fail)
    assert list(tmp_path.iterdir()) == []


def test_of_two_conversions_at_once_the_first_stays(converted: Path):
    def slower(directory: Path) -> None:
        (directory / "model.safetensors").write_bytes(b"later")

    put(converted, SOURCE, slower)
    verify(converted, SOURCE)
    assert (converted / "model.safetensors").read_bytes() == b"weights"
    assert [path.name for path in converted.parent.iterdir()] == ["pin"]


def test_a_rename_that_fails_for_another_reason_is_reported(tmp_path: Path):
    (tmp_path / "pin").write_text("a file is in the way")
    with pytest.raises(NotADirectoryError):
        put(tmp_path / "pin", SOURCE, fill)
