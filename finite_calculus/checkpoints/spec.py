"""What a model is asked for by: a known name, a folder in Hugging Face form, or a hub id.

Nothing is read or fetched here. A known name wins; then a path that exists, or is written as a path;
then `owner/name`, with `@revision` for a branch, a tag or a commit.
"""

import difflib
import os
import re
from dataclasses import dataclass
from pathlib import Path

from finite_calculus.checkpoints.registry import KNOWN, Checkpoint

_HUB_ID = re.compile(r"(?P<repository>[\w-][\w.-]*/[\w-][\w.-]*)(@(?P<revision>[\w-][\w./-]*))?")


@dataclass(frozen=True)
class Folder:
    """A local folder with config.json and safetensors."""

    path: Path

    @property
    def name(self) -> str:
        """The base name, which alone is recorded."""
        return self.path.resolve().name


@dataclass(frozen=True)
class HubModel:
    """A hub repository, and the revision that was asked for; None is its main branch."""

    repository: str
    revision: str | None = None


Source = Checkpoint | Folder | HubModel


def resolve(spec: str | os.PathLike[str]) -> Source:
    """Decide what a spec means, or say what was tried; a path object is always a folder."""
    if isinstance(spec, os.PathLike):
        return Folder(Path(spec).expanduser())
    if spec in KNOWN:
        return KNOWN[spec]
    # Unlike those of pathlib, these raise for no spelling: neither ~no-such-user nor a name that is too long.
    path = os.path.expanduser(spec)
    if spec and (spec[0] in "./~" or os.path.isabs(path) or os.path.exists(path)):
        return Folder(Path(path))
    match = _HUB_ID.fullmatch(spec)
    if match is not None and ".." not in spec:
        return HubModel(match["repository"], match["revision"])
    close = difflib.get_close_matches(spec, KNOWN, n=3)
    hint = f" Did you mean {' or '.join(close)}?" if close else ""
    raise ValueError(
        f"A model must be a known name, a folder or a hub id; got {spec!r}.{hint} It is none of the names "
        f"{', '.join(KNOWN)}; there is no such folder; and a hub id is written owner/name or "
        f"owner/name@revision."
    )
