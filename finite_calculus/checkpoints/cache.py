"""The directory of converted checkpoints: where it is, how one gets in, and how each is checked.

A converted checkpoint is a directory with a manifest of the sha256 of every file. It appears by one
rename when it is complete, and is verified whenever it is loaded.
"""

import hashlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from finite_calculus.checkpoints.errors import CheckpointError

VARIABLE = "FINITE_CALCULUS_CACHE"
MANIFEST = "manifest.json"


def cache_directory(cache: Path | str | None = None) -> Path:
    """The argument, else the environment variable, else the platform's own place for caches."""
    if cache is not None:
        return Path(cache).expanduser()
    if os.environ.get(VARIABLE):
        return Path(os.environ[VARIABLE]).expanduser()
    return _platform_directory() / "finite-calculus"


def sha256_of(path: Path) -> str:
    """The sha256 of a file, read in pieces."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def put(directory: Path, source_sha256: str, fill: Callable[[Path], None]) -> None:
    """Let `fill` write into a temporary directory beside `directory`, then rename it into place."""
    directory.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(prefix=".partial-", dir=directory.parent))
    try:
        fill(partial)
        files = {
            path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
            for path in sorted(partial.iterdir())
        }
        manifest = {"source_sha256": source_sha256, "files": files}
        (partial / MANIFEST).write_text(json.dumps(manifest, indent=1) + "\n")
        partial.chmod(0o755)
        try:
            partial.rename(directory)
        except OSError:
            # Another process was faster; what it left is verified like anything else.
            if not (directory / MANIFEST).exists():
                raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def verify(directory: Path, source_sha256: str) -> None:
    """Refuse a converted checkpoint that is not, byte for byte, what its manifest says."""
    again = f"Remove {directory} and load the checkpoint again."
    try:
        manifest = json.loads((directory / MANIFEST).read_text())
        files, source = dict(manifest["files"]), manifest["source_sha256"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CheckpointError(f"{directory / MANIFEST} cannot be read: {error}. {again}") from error
    if source != source_sha256:
        raise CheckpointError(
            f"{directory} was converted from a source with sha256 {source}; "
            f"the registry pins {source_sha256}. {again}"
        )
    names = {path.name for path in directory.iterdir()} - {MANIFEST}
    if names != set(files):
        odd = ", ".join(sorted(names ^ set(files)))
        raise CheckpointError(f"{directory} and its manifest differ in the files {odd}. {again}")
    for name, facts in files.items():
        present = sha256_of(directory / name)
        if present != facts["sha256"]:
            raise CheckpointError(
                f"{directory / name} has sha256 {present}; its manifest says {facts['sha256']}. {again}"
            )


def _platform_directory() -> Path:
    if os.environ.get("XDG_CACHE_HOME"):
        return Path(os.environ["XDG_CACHE_HOME"]).expanduser()
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"])
    return Path.home() / ".cache"
