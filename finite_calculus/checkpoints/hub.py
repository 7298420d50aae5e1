"""Models of the Hugging Face hub, at one commit, every file checked against its hash.

The hub is asked once: it answers which commit a revision is, and the hash of each file there. Weights
are held to their sha256, small files to git's hash of them. Without a connection the hub's own cache
serves what it has of that revision; there a file is held to the hash that it was stored under when
the hub was last asked. Only configuration, safetensors and tokenizer are fetched.
"""

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finite_calculus.checkpoints import folder as folders
from finite_calculus.checkpoints.cache import sha256_of
from finite_calculus.checkpoints.errors import CheckpointError
from finite_calculus.checkpoints.spec import HubModel
from finite_calculus.checkpoints.status import hub_cache


@dataclass(frozen=True)
class Snapshot:
    """The files of one commit, in a folder of the hub's cache."""

    repository: str
    commit: str
    folder: Path


@dataclass(frozen=True)
class _Repository:
    """One commit of a repository: its files with their hashes, or none of these while offline."""

    name: str
    commit: str
    hashes: Mapping[str, str | None]
    online: bool
    cache: Path | None

    @property
    def label(self) -> str:
        return f"{self.name}@{self.commit}"

    def get(self, file: str) -> Path:
        """One file in the cache, fetched if need be, and verified."""
        from huggingface_hub import hf_hub_download

        try:
            path = hf_hub_download(
                self.name,
                file,
                revision=self.commit,
                cache_dir=self.cache,
                local_files_only=not self.online,
            )
        # Whatever the library or its HTTP client raises, the user needs the same words.
        except Exception as error:
            raise CheckpointError(
                f"{file} of {self.label} could not be downloaded ({_reason(error)}). "
                f"Try again; a broken connection or a full disk are the usual causes."
            ) from error
        _verify(Path(path), self.hashes[file], f"{file} of {self.label}")
        return Path(path)


def snapshot(
    source: HubModel, *, cache: Path | str | None = None, config_only: bool = False
) -> Snapshot:
    """The verified files of a hub model; `config_only` fetches config.json and nothing else."""
    repository = _repository(source, hub_cache(cache))
    names = repository.hashes.keys()
    folders.require_config(names, repository.label)
    config = repository.get(folders.CONFIG)
    folders.read_config(config)
    if not config_only:
        weights = repository.get(folders.weights_file(names, repository.label))
        parts = folders.parts_of(weights) if weights.name == folders.INDEX else ()
        for name in (*parts, *folders.TOKENIZER, "generation_config.json"):
            if name in names:
                repository.get(name)
            elif name in parts:
                raise CheckpointError(
                    f"{repository.label} lacks {name}, a part that its index names. "
                    f"Load it once with a connection; if that does not help, its upload is incomplete."
                )
    if repository.online and source.revision != repository.commit:
        _keep_reference(source, repository)
    return Snapshot(source.repository, repository.commit, config.parent)


def _repository(source: HubModel, cache: Path | None) -> _Repository:
    """What the hub says of a revision, or what its cache holds of it."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import (
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    name, revision = source.repository, source.revision or "main"
    try:
        answer = HfApi().model_info(name, revision=revision, files_metadata=True)
    except GatedRepoError as error:
        raise CheckpointError(
            f"{name} is gated: its owners grant access. Ask for it on the model's page, log in with "
            f"`hf auth login`, and try again."
        ) from error
    except RepositoryNotFoundError as error:
        raise CheckpointError(
            f"The hub has no model {name}, or it is private. Check the spelling of owner and name; for a "
            f"private model, log in with `hf auth login`."
        ) from error
    except RevisionNotFoundError as error:
        raise CheckpointError(
            f"{name} has no revision {revision!r} on the hub. Give a branch, a tag or a full commit."
        ) from error
    # No connection, a proxy, a server in trouble: the cache is the second source for all of them.
    except Exception as error:
        return _cached(source, cache, error)
    hashes = {file.rfilename: _hash(file) for file in answer.siblings or ()}
    return _Repository(name, str(answer.sha), hashes, online=True, cache=cache)


def _hash(file: Any) -> str | None:
    return file.lfs.sha256 if file.lfs is not None else file.blob_id


def _cached(source: HubModel, cache: Path | None, error: Exception) -> _Repository:
    """The revision as the hub's cache has it: a commit, or where a branch was when last asked."""
    revision = source.revision or "main"
    storage = _storage(source, cache)
    reference = storage / "refs" / revision
    commit = reference.read_text().strip() if reference.is_file() else revision
    folder = storage / "snapshots" / commit
    if not (folder / folders.CONFIG).exists():
        raise CheckpointError(
            f"{source.repository} at revision {revision} is not in the local cache, and the hub could not "
            f"be reached ({_reason(error)}). Load it once with a connection, or copy a hub cache and "
            f"point HF_HOME to it. Without either, use `embedded` or a folder."
        ) from error
    hashes = {path.name: _stored_hash(path) for path in folder.iterdir()}
    return _Repository(source.repository, commit, hashes, online=False, cache=cache)


def _storage(source: HubModel, cache: Path | None) -> Path:
    """Where the hub's library keeps a repository."""
    from huggingface_hub import constants
    from huggingface_hub.file_download import repo_folder_name

    name = repo_folder_name(repo_id=source.repository, repo_type="model")
    return Path(cache or constants.HF_HUB_CACHE) / name


def _keep_reference(source: HubModel, repository: _Repository) -> None:
    """Note which commit a branch is, as the hub's library does, so that it is known offline."""
    path = _storage(source, repository.cache) / "refs" / (source.revision or "main")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(repository.commit)


def _stored_hash(path: Path) -> str | None:
    """The cache stores a file under its hash and links to it from the commit's folder."""
    return Path(os.readlink(path)).name if path.is_symlink() else None


def _verify(path: Path, expected: str | None, what: str) -> None:
    """Hold a file to its sha256, or to git's hash where the hub knows no other."""
    if expected is None:
        raise CheckpointError(
            f"{what} has no hash to be verified against. Load it once with a connection to the hub."
        )
    actual = sha256_of(path) if len(expected) == 64 else _git_hash(path)
    if actual != expected:
        raise CheckpointError(
            f"{what} must have the hash {expected}; the file in the cache has {actual}. It was damaged or "
            f"replaced and is not used. Remove {path.resolve()} and {path}, and load again."
        )


def _git_hash(path: Path) -> str:
    content = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


def _reason(error: Exception) -> str:
    """The kind of an error and its first words."""
    words = str(error).strip().splitlines() or ["no words"]
    return f"{type(error).__name__}: {words[0]}"
