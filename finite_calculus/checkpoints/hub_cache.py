"""The hub's own cache on this machine: where it keeps a commit, and that its files are what they were.

The cache stores each file under its hash and links to it from the folder of a commit: sha256 for large
files, git's hash for small ones. Where the system has no links, there is no hash to hold a file to
without asking the hub.
"""

import hashlib
import os
from pathlib import Path

from finite_calculus.checkpoints.cache import sha256_of
from finite_calculus.checkpoints.errors import CheckpointError


def cached_commit(repository: str, revision: str, cache: Path | None) -> str:
    """The commit that a branch was when the hub was last asked; a commit is itself."""
    reference = _storage(repository, cache) / "refs" / revision
    return reference.read_text().strip() if reference.is_file() else revision


def keep_reference(repository: str, revision: str, commit: str, cache: Path | None) -> None:
    """Note which commit a branch is, as the hub's library does, so that it is known offline."""
    path = _storage(repository, cache) / "refs" / revision
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(commit)


def commit_folder(repository: str, commit: str, cache: Path | None) -> Path:
    """Where the files of a commit are, if any are."""
    return _storage(repository, cache) / "snapshots" / commit


def stored_hashes(folder: Path) -> dict[str, str | None]:
    """The hash that each file of a commit was stored under; None for one that is no link."""
    return {
        path.name: Path(os.readlink(path)).name if path.is_symlink() else None
        for path in folder.iterdir()
    }


def verify(path: Path, expected: str | None, what: str) -> None:
    """Hold a file to its sha256, or to git's hash where the hub knows no other."""
    if expected is None:
        raise CheckpointError(
            f"{what} has no hash to be verified against: no file of that name and commit came from the hub. "
            f"Remove {path}, and load again with a connection."
        )
    actual = sha256_of(path) if len(expected) == 64 else _git_hash(path)
    if actual != expected:
        raise CheckpointError(
            f"{what} must have the hash {expected}; the file in the cache has {actual}. It was damaged or "
            f"replaced and is not used. Remove {path.resolve()} and {path}, and load again."
        )


def _storage(repository: str, cache: Path | None) -> Path:
    """Where the hub's library keeps a repository."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    name = repo_folder_name(repo_id=repository, repo_type="model")
    return Path(cache or constants.HF_HUB_CACHE) / name


def _git_hash(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
