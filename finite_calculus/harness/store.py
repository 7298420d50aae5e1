"""Where a run lives, as those who work on it see it: what is claimed, committed, asked and shared.

A `Folder` is a directory of a file system; what it does is done by `claims`, `directory` and `shards`. An
object store (`objects`) has a directory too, of copies, which `pull` and `push` keep up with it. `opened`
makes the one or the other of what a user names.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from finite_calculus.harness import claims, directory, shards


@runtime_checkable
class Store(Protocol):
    """A run's place: `name` is what a user calls it, `path` the directory where its files can be read."""

    @property
    def name(self) -> str:
        """What another process must be told to find it."""
        ...

    @property
    def path(self) -> Path:
        """A directory with the files of the run."""
        ...

    def pull(self, units: bool = False) -> None:
        """See to it that files of the run are in the directory, those of finished units if wanted."""

    def push(self) -> None:
        """See to it that others see the files of the directory."""

    def setup(self) -> AbstractContextManager[None]:
        """Hold what one process does for all: opening the run, its gate, shared tensors."""
        ...

    def claimed(self, unit: str) -> AbstractContextManager[bool]:
        """Hold a unit for a block; False if another process holds it."""
        ...

    def survey(self, record: directory.RunRecord, plan: directory.StagePlan) -> directory.Survey:
        """What is finished of a stage, as far as a worker must know."""
        ...

    def finished(self, unit: str) -> bool:
        """Whether a unit is finished."""
        ...

    def unfinished(self, units: list[str]) -> list[str]:
        """Those of the units that are not finished."""
        ...

    def commit(self, unit: str, files: Mapping[str, bytes], **words: Any) -> bool:
        """Write a unit, if no other process was faster; then what it wrote must be the same."""
        ...


@dataclass(frozen=True)
class Folder:
    """A directory of a file system with atomic rename and hard links."""

    path: Path

    @property
    def name(self) -> str:
        """The path."""
        return str(self.path)

    def pull(self, units: bool = False) -> None:
        """The files are where they are."""

    def push(self) -> None:
        """The files are where they are."""

    def setup(self) -> AbstractContextManager[None]:
        """A claim of the whole run."""
        return claims.exclusive(self.path, "setup")

    def claimed(self, unit: str) -> AbstractContextManager[bool]:
        """A claim that the system's lock and a heartbeat keep."""
        return claims.claimed(self.path, unit)

    def survey(self, record: directory.RunRecord, plan: directory.StagePlan) -> directory.Survey:
        """The hashes of a part of the units are verified, too."""
        return directory.survey(self.path, record, plan, most=directory.VERIFIED)

    def finished(self, unit: str) -> bool:
        """Whether there is a shard of this name, which is there whole or not at all."""
        return (self.path / directory.UNITS / unit).exists()

    def unfinished(self, units: list[str]) -> list[str]:
        """By their names."""
        return directory.unfinished(self.path, units)

    def commit(self, unit: str, files: Mapping[str, bytes], **words: Any) -> bool:
        """A shard, renamed into place."""
        return shards.commit(self.path / directory.UNITS / unit, files, **words)


def is_address(place: str) -> bool:
    """Whether a place is named as an address, as in s3://bucket/run, and not as a directory."""
    return "://" in place


@contextmanager
def opened(place: str, *, write: bool = False, begun: bool = False) -> Iterator[Store]:
    """The store that a user names; with `write` it is asked first whether it can coordinate workers.

    With `begun` there must be a run.
    """
    if not is_address(place):
        yield Folder(Path(place))
        return
    from finite_calculus.harness.objects import objects_at

    with objects_at(place, write=write, begun=begun) as store:
        yield store


@contextmanager
def reading(place: str) -> Iterator[Path]:
    """The files of a run with all finished units, as a directory; nothing is written to an address."""
    with opened(place, begun=True) as store:
        store.pull(units=True)
        yield store.path
