"""Models of the Hugging Face hub, at one commit, every file checked against its hash.

The hub is asked once: it answers which commit a revision is, and the hash of each file there. Weights
are held to their sha256, small files to git's hash of them. Without a connection the hub's own cache
serves what it has of that revision; there a file is held to the hash that it was stored under when
the hub was last asked. Only configuration, safetensors and tokenizer are fetched. A download that
breaks off goes on where it stopped, as long as the process lives.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finite_calculus.checkpoints import folder as folders
from finite_calculus.checkpoints.errors import CheckpointError
from finite_calculus.checkpoints.hub_cache import (
    cached_commit,
    commit_folder,
    keep_reference,
    stored_hashes,
    verify,
)
from finite_calculus.checkpoints.spec import HubModel
from finite_calculus.checkpoints.status import hub_cache


@dataclass(frozen=True)
class Snapshot:
    """The files of one commit, in a folder of the hub's cache."""

    repository: str
    commit: str
    folder: Path


def snapshot(
    source: HubModel, *, cache: Path | str | None = None, config_only: bool = False
) -> Snapshot:
    """The verified files of a hub model; `config_only` fetches config.json and nothing else."""
    commit = _commit(source, hub_cache(cache))
    folders.require_config(commit.hashes, commit.label)
    config = commit.get(folders.CONFIG)
    folders.read_config(config)
    if not config_only:
        _get_model(commit)
        _verify_neighbours(commit, config.parent)
    if commit.online and source.revision != commit.name:
        keep_reference(source.repository, source.revision or "main", commit.name, commit.cache)
    return Snapshot(source.repository, commit.name, config.parent)


@dataclass(frozen=True)
class _Commit:
    """One commit of a repository: the hash of each file, by the hub or, offline, by its cache."""

    repository: str
    name: str
    hashes: Mapping[str, str | None]
    online: bool
    cache: Path | None

    @property
    def label(self) -> str:
        return f"{self.repository}@{self.name}"

    def get(self, file: str) -> Path:
        """One file in the cache, fetched if need be, and verified."""
        from huggingface_hub import hf_hub_download

        try:
            path = hf_hub_download(
                self.repository,
                file,
                revision=self.name,
                cache_dir=self.cache,
                local_files_only=not self.online,
            )
        # The library and its HTTP client raise errors of many kinds.
        except Exception as error:
            _raise_refusal(error, self.repository, self.name)
            raise CheckpointError(
                f"{file} of {self.label} could not be downloaded ({_reason(error)}). "
                f"Try again; a broken connection or a full disk are the usual causes."
            ) from error
        self.verify(Path(path))
        return Path(path)

    def verify(self, path: Path) -> None:
        """Hold a file of the commit's folder to its hash."""
        verify(path, self.hashes.get(path.name), f"{path.name} of {self.label}")


def _get_model(commit: _Commit) -> None:
    """Weights, whole or in parts, and whatever there is of a tokenizer."""
    weights = commit.get(folders.weights_file(commit.hashes, commit.label))
    for part in folders.parts_of(weights) if weights.name == folders.INDEX else ():
        if part not in commit.hashes:
            raise CheckpointError(
                f"{commit.label} lacks {part}, a part that its index names. "
                f"Load it once with a connection; if that does not help, its upload is incomplete."
            )
        commit.get(part)
    for name in (*folders.TOKENIZER, "generation_config.json"):
        if name in commit.hashes:
            commit.get(name)


def _verify_neighbours(commit: _Commit, folder: Path) -> None:
    """Other files that lie there: transformers looks for more than is fetched here."""
    for path in folder.iterdir():
        if path.is_file() and path.suffix not in folders.OTHER_WEIGHTS:
            commit.verify(path)


def _commit(source: HubModel, cache: Path | None) -> _Commit:
    """What the hub says of a revision, or what its cache holds of it."""
    from huggingface_hub import HfApi, constants

    name, revision = source.repository, source.revision or "main"
    try:
        # Without a limit of its own this request would wait for a silent hub for ever.
        answer = HfApi().model_info(
            name, revision=revision, files_metadata=True, timeout=constants.HF_HUB_ETAG_TIMEOUT
        )
    except Exception as error:
        _raise_refusal(error, name, revision)
        # No connection, a proxy, a server in trouble: the cache is the second source for all of them.
        return _cached(name, revision, cache, error)
    hashes = {file.rfilename: _hash(file) for file in answer.siblings or ()}
    return _Commit(name, str(answer.sha), hashes, online=True, cache=cache)


def _cached(name: str, revision: str, cache: Path | None, error: Exception) -> _Commit:
    """The revision as the cache has it, or a refusal with the error that kept the hub away."""
    commit = cached_commit(name, revision, cache)
    folder = commit_folder(name, commit, cache)
    if not (folder / folders.CONFIG).exists():
        raise CheckpointError(
            f"{name} at revision {revision} is not in the local cache, and the hub could not be reached "
            f"({_reason(error)}). Load it once with a connection, or copy a hub cache and point HF_HOME "
            f"to it. Without either, use `embedded` or a folder."
        ) from error
    return _Commit(name, commit, stored_hashes(folder), online=False, cache=cache)


def _hash(file: Any) -> str | None:
    return file.lfs.sha256 if file.lfs is not None else file.blob_id


def _raise_refusal(error: Exception, name: str, revision: str) -> None:
    """Raise what the hub itself refuses, in words of ours; other errors say nothing about the model."""
    from huggingface_hub.errors import (
        GatedRepoError,
        RepositoryNotFoundError,
        RevisionNotFoundError,
    )

    # The first is a kind of the second. The hub lists the files of a gated model and then refuses them.
    if isinstance(error, GatedRepoError):
        raise CheckpointError(
            f"{name} is gated: its owners grant access. Ask for it on the model's page, log in with "
            f"`hf auth login`, and try again."
        ) from error
    if isinstance(error, RepositoryNotFoundError):
        raise CheckpointError(
            f"The hub has no model {name}, or it is private. Check the spelling of owner and name; for a "
            f"private model, log in with `hf auth login`."
        ) from error
    if isinstance(error, RevisionNotFoundError):
        raise CheckpointError(
            f"{name} has no revision {revision!r} on the hub. Give a branch, a tag or a full commit."
        ) from error


def _reason(error: Exception) -> str:
    """The kind of an error and its words in one line."""
    from huggingface_hub.errors import LocalEntryNotFoundError

    # The library says that a file is not here when it could not be fetched; what it met is the cause.
    if isinstance(error, LocalEntryNotFoundError) and isinstance(error.__cause__, Exception):
        error = error.__cause__
    return f"{type(error).__name__}: {' '.join(str(error).split()) or 'no words'}"
