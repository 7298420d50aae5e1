"""A run at an address of an object store, which has neither rename nor links, only conditional create.

run.json, plan-STAGE.json, preflight.json … as in a directory
weights.zip      the tensors that all units share
units/NAME.zip   one object for each finished unit: its shard, seal included
claims/NAME      which process works on which unit
logs/TIME-ID.log what a process noted, written when it ends

A unit is one object, so that it is there whole or not at all, and `create`, which the store must refuse
where the name is taken, makes the first commit the unit's. A claim is an object, too: its owner writes it
anew every few seconds, and whoever saw it unchanged for a whole lease removes it. That has gaps in which two
processes may hold one unit; claims only save work, and the second commit is compared with the first.

Files are read and written in a temporary directory of copies by the code that serves directories. What comes
from the store is trusted as little as a directory: names are plain names, archives are not compressed.
"""

import json
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from finite_calculus.harness import claims, directory, shards
from finite_calculus.harness.errors import StoreError
from finite_calculus.harness.packed import NO_ARCHIVE, packed_shard, unpack
from finite_calculus.provenance.files import read_plain

_ZIP = ".zip"
# Later commands write these again; everything else is written once.
_REPLACED = (directory.PREFLIGHT, directory.REPLAY, directory.ORIGIN)


@dataclass(frozen=True, eq=False)
class Objects:
    """An address with its file system of fsspec, and a directory of copies."""

    name: str
    path: Path
    files: Any
    root: str

    def pull(self, units: bool = False) -> None:
        """Copy the files of the run, and the finished units that are not here."""
        top = self._names("")
        for name in top:
            if name.endswith(".json") and shards.is_unit_name(name):
                self._do(self.files.get_file, self._key(name), str(self.path / name))
        if directory.WEIGHTS + _ZIP in top and not (self.path / directory.WEIGHTS).exists():
            self._fetch(directory.WEIGHTS)
        if directory.RUN not in top:
            self._require_free(top)
        for unit in sorted(self._finished()) if units else ():
            self._fetch(f"{directory.UNITS}/{unit}")

    def push(self) -> None:
        """Write the files of the directory that are not there; what is there must be the same."""
        top = self._names("")
        # What tells a run comes first, as in a directory.
        for path in sorted(
            self.path.glob("[!.]*.json"), key=lambda path: path.name != directory.RUN
        ):
            blob = read_plain(path)
            if path.name in _REPLACED:
                if path.name not in top or self._read(path.name) != blob:
                    self._do(self.files.pipe_file, self._key(path.name), blob)
            elif not self._create(path.name, blob) and self._read(path.name) != blob:
                raise StoreError(
                    f"{self.name}/{path.name} was written by another process meanwhile, and is another one. "
                    f"Run the same command again, or use another address."
                )
        units = directory.entries(self.path) - self._finished()
        shared = [directory.WEIGHTS] if (self.path / directory.WEIGHTS).exists() else []
        for name in (*shared, *(f"{directory.UNITS}/{unit}" for unit in sorted(units))):
            self._create(name + _ZIP, packed_shard(self.path / name))

    @contextmanager
    def setup(self) -> Iterator[None]:
        """Wait for a claim of the whole run; before the block all is pulled, after it pushed."""
        while True:
            with self.claimed(".setup") as mine:
                if mine:
                    self.pull()
                    try:
                        yield
                    finally:  # a gate that is shut is told, too
                        self.push()
                    return
            time.sleep(claims.POLL)

    @contextmanager
    def claimed(self, unit: str) -> Iterator[bool]:
        """Hold a unit for a block; False if another process holds it."""
        name = f"{claims.CLAIMS}/{unit}"
        if not self._is_free(name) or not (words := self._take(name)):
            yield False
            return
        ended = threading.Event()
        beats = threading.Thread(target=self._beat, args=(name, words, ended), daemon=True)
        beats.start()
        try:
            yield True
        finally:
            ended.set()
            beats.join()
            with suppress(OSError):
                self._remove_own(name, words)

    def survey(self, record: directory.RunRecord, plan: directory.StagePlan) -> directory.Survey:
        """By names alone: whoever joins does not copy the units of others; `status` verifies them."""
        there = self._finished()
        done = tuple(unit for unit in plan.units if unit in there)
        return directory.Survey(done, tuple(unit for unit in plan.units if unit not in there), ())

    def finished(self, unit: str) -> bool:
        """Whether there is an object of this unit."""
        return self._do(self.files.exists, self._key(f"{directory.UNITS}/{unit}{_ZIP}"))

    def unfinished(self, units: list[str]) -> list[str]:
        """By the names that are there."""
        there = self._finished()
        return [unit for unit in units if unit not in there]

    def commit(self, unit: str, files: Mapping[str, bytes], **words: Any) -> bool:
        """Write a unit as one object; False if another process was faster, whose unit must be the same."""
        name = f"{directory.UNITS}/{unit}"
        target = self.path / name
        if target.exists() or self.finished(unit):
            self._fetch(name)
        first = shards.commit(target, files, **words)
        if not first or self._create(name + _ZIP, packed_shard(target)):
            return first
        shutil.rmtree(target)
        self._fetch(name)
        return shards.commit(target, files, **words)

    def log(self, path: Path) -> None:
        """Keep what this process noted."""
        moment = f"{datetime.now(UTC):%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
        if path.exists():
            self._create(f"logs/{moment}.log", read_plain(path))

    def require_conditional_create(self) -> None:
        """Refuse a store that writes over what is there although it is asked not to."""
        name = f"{claims.CLAIMS}/.{secrets.token_hex(8)}"
        try:
            sound = self._create(name, b"first") and not self._create(name, b"second")
            sound = sound and self._read(name) == b"first"
        finally:
            with suppress(OSError):
                self._do(self.files.rm_file, self._key(name))
        if not sound:
            raise StoreError(
                f"{self.name} must be of a store with conditional create, which refuses to write where "
                f"the name is taken; {type(self.files).__name__} wrote twice. Use another, or a directory."
            )

    def _require_free(self, top: set[str]) -> None:
        foreign = sorted(top - {claims.CLAIMS, "logs"})
        if foreign:
            raise directory.NoRunError(
                f"{self.name} must be empty or the address of a run; it holds {foreign[0][:80]} and no "
                f"{directory.RUN}. Name another address."
            )

    def _is_free(self, name: str) -> bool:
        """Whether nobody holds a claim; one that stood still for a whole lease is removed."""
        try:
            words = self._read(name)
        except FileNotFoundError:
            return True
        if not claims._PATIENCE.is_over(self.path / name, (hash(words), len(words))):
            return False
        with suppress(FileNotFoundError):
            self._remove_own(name, words)
        return True

    def _take(self, name: str) -> bytes:
        """Create a claim and return what it says; nothing if another process was faster."""
        words = json.dumps(claims.owner_words()).encode() + b"\n"
        # A request that was sent twice finds the claim that it made itself.
        with suppress(FileNotFoundError):
            return words if self._create(name, words) or self._read(name) == words else b""
        return b""

    def _beat(self, name: str, words: bytes, ended: threading.Event) -> None:
        """Make a claim longer until it ends or is another's."""
        beats = 0
        while not ended.wait(claims.BEAT):
            with suppress(OSError):
                if not self._read(name).startswith(words):
                    return
                beats += 1
                self._do(self.files.pipe_file, self._key(name), words + b"." * beats)

    def _remove_own(self, name: str, words: bytes) -> None:
        """Remove a claim that still says what it did."""
        if self._read(name).startswith(words):
            self._do(self.files.rm_file, self._key(name))

    def _fetch(self, name: str) -> None:
        """Copy a shard, unless it is here; what is no archive of ours becomes a shard without a seal."""
        target = self.path / name
        if target.exists():
            return
        packed = self.path / f".{secrets.token_hex(8)}{_ZIP}"
        try:
            self._do(self.files.get_file, self._key(name + _ZIP), str(packed))
            target.mkdir(parents=True)
            with suppress(*NO_ARCHIVE):
                unpack(packed, target)
        finally:
            packed.unlink(missing_ok=True)

    def _finished(self) -> set[str]:
        """The units that are there, by their names, which must be plain."""
        names = self._names(directory.UNITS)
        odd = sorted(name for name in names if not (name.endswith(_ZIP) and _is_plain(name)))
        if odd:
            raise StoreError(
                f"{self.name}/{directory.UNITS} must hold units as a run writes them; {odd[0][:80]!r} is "
                f"foreign. Move it away."
            )
        return {name.removesuffix(_ZIP) for name in names}

    def _names(self, folder: str) -> set[str]:
        """The names in a folder of the run."""
        place = self._key(folder)
        try:
            listed = self._do(self.files.ls, place, detail=False)
        except FileNotFoundError:
            return set()
        names = {str(each).rstrip("/").rpartition("/")[2] for each in listed}
        return names - {place.rpartition("/")[2]} if place in listed else names

    def _create(self, name: str, blob: bytes) -> bool:
        """Write an object whose name is not taken; False if it is."""
        try:
            self._do(self.files.pipe_file, self._key(name), blob, mode="create")
        except FileExistsError:
            return False
        return True

    def _read(self, name: str) -> bytes:
        return self._do(self.files.cat_file, self._key(name))

    def _key(self, name: str) -> str:
        return f"{self.root}/{name}".rstrip("/")

    def _do(self, call: Callable[..., Any], *words: Any, **more: Any) -> Any:
        """Ask the store; whatever its own library raises is an OSError that names the address."""
        try:
            return call(*words, **more)
        except (FileNotFoundError, FileExistsError):
            raise
        except Exception as error:
            raise OSError(f"{self.name}: {type(error).__name__}: {error}") from error


@contextmanager
def objects_at(address: str, *, write: bool, begun: bool) -> Iterator[Objects]:
    """A store at an address, with a temporary directory for its copies."""
    files, root = _file_system(address)
    with tempfile.TemporaryDirectory(prefix="finite-calculus-") as place:
        store = Objects(address.rstrip("/"), Path(place) / "run", files, root)
        store.path.mkdir()
        if write:
            store.require_conditional_create()
        store.pull()
        if begun and not (store.path / directory.RUN).exists():
            raise directory.NoRunError(
                f"{address[:200]} must be the address of a run; it holds no {directory.RUN}. Start one with "
                f"`finite-calculus run`."
            )
        try:
            yield store
        finally:
            with suppress(OSError):
                store.log(store.path / directory.LOG)


def _file_system(address: str) -> tuple[Any, str]:
    import fsspec

    protocol = address.partition("://")[0]
    words = f"the address of a run must be of an object store, as in s3://bucket/run; got {address[:200]!r}"
    if protocol in ("file", "local"):
        raise ValueError(f"{words}. Name the directory itself.")
    try:
        # What others write must be seen at once.
        files, root = fsspec.url_to_fs(address, use_listings_cache=False, skip_instance_cache=True)
    except (ImportError, ValueError) as error:
        hint = "For s3: pip install 'finite-calculus[objects]'."
        raise ValueError(f"{words}: {error}. {hint}") from error
    if not root.strip("/"):
        raise ValueError(f"{words}. Name a folder of it.")
    return files, root.rstrip("/")


def _is_plain(name: str) -> bool:
    return shards.is_unit_name(name) and shards.is_unit_name(name.removesuffix(_ZIP))
