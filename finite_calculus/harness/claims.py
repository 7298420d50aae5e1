"""Claims: who works on which unit, so that several processes, on any machines, share a run's work.

A claim is a file that comes into being under its name whole, once, by whoever is first. Its owner keeps it
locked and makes it longer every few seconds. It is free again

- at once, where the lock of this machine's system says that its owner has ended, however it ended;
- after `LEASE` seconds in which whoever waits for it saw it grow no longer: its machine is gone or frozen.

The wait is measured by the waiting process's own steady clock, in looks of at most a few seconds each, so
that neither clocks that jump nor being frozen itself makes it take what is in good hands.

Claims only save work. If two processes do hold one unit, the first sound commit is the unit's, and the second
is compared with it (`shards`).
"""

import fcntl
import json
import os
import secrets
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

from finite_calculus.harness.errors import StoreError
from finite_calculus.provenance.files import is_folder, open_plain

CLAIMS = "claims"
BEAT, LEASE, POLL = 5.0, 60.0, 0.2
# A process that passes by a million claims does not remember them all.
MOST_WATCHED = 1000
# The first line of a claim is far shorter.
MOST_WORDS = 1 << 14
_BOOT = Path("/proc/sys/kernel/random/boot_id")


@dataclass
class Patience:
    """How long this process has watched each claim of others without seeing it grow."""

    seen: dict[Path, tuple[tuple[int, int], float, float]] = field(default_factory=dict)

    def is_over(self, path: Path, state: tuple[int, int]) -> bool:
        """Look once more; whether the claim has stood still for the whole lease."""
        now = time.monotonic()
        before, last, waited = self.seen.pop(path, (state, now, 0.0))
        if len(self.seen) >= MOST_WATCHED:
            self.seen.pop(next(iter(self.seen)))  # the one that was not looked at for longest
        # A long time between two looks says nothing: this process may have been frozen.
        waited = waited + min(now - last, BEAT) if before == state else 0.0
        self.seen[path] = (state, now, waited)
        return waited >= LEASE


_PATIENCE = Patience()


@contextmanager
def claimed(out: Path, unit: str) -> Iterator[bool]:
    """Hold the claim of a unit for a block; False if another process holds it."""
    path = _folder(out) / unit
    if not _is_free(path) or (file := _take(path)) is None:
        yield False
        return
    ended = threading.Event()
    beats = threading.Thread(target=_beat, args=(file, ended), daemon=True)
    beats.start()
    try:
        yield True
    finally:
        ended.set()
        beats.join()
        # Another process may have taken it over, if this one was frozen; then it is not ours to remove.
        if _is_current(file, path):
            path.unlink(missing_ok=True)
        file.close()


@contextmanager
def exclusive(out: Path, name: str) -> Iterator[None]:
    """Wait for a claim of the whole run, for what one process does for all: opening it, its gate."""
    while True:
        with claimed(out, f".{name}") as mine:
            if mine:
                yield
                return
        time.sleep(POLL)


def holders(out: Path) -> dict[str, dict[str, Any]]:
    """The units that are being worked on, with the process that holds each."""
    folder = out / CLAIMS
    paths = sorted(folder.iterdir()) if is_folder(folder) else []
    return {
        path.name: owner
        for path in paths
        if not path.name.startswith(".") and (owner := _holder(path)) is not None
    }


def owner_words() -> dict[str, Any]:
    """What a new claim of this process says of its owner."""
    return {
        "host": socket.gethostname(),
        "process": os.getpid(),
        "boot": _boot(),
        "token": secrets.token_hex(8),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }


def _folder(out: Path) -> Path:
    folder = out / CLAIMS
    if not is_folder(folder):
        with suppress(FileExistsError):
            folder.mkdir(parents=True)
    if not is_folder(folder):
        raise StoreError(f"{CLAIMS} must be a folder of the run; it is a link. Move it away.")
    return folder


def _take(path: Path) -> IO[bytes] | None:
    """Create a claim, whole and locked; None if another process was faster."""
    owner = owner_words()
    draft = path.with_name(f".{owner['token']}.new")
    file = draft.open("xb")
    try:
        _lock(file)
        file.write(json.dumps(owner).encode() + b"\n")
        file.flush()
        os.link(draft, path)
    except FileExistsError:
        file.close()
        return None
    except BaseException:
        file.close()
        raise
    finally:
        draft.unlink(missing_ok=True)
    return file


def _is_free(path: Path) -> bool:
    """Whether nobody holds a claim; one whose owner is gone is put out of the way."""
    try:
        file = open_plain(path, os.O_RDWR | os.O_APPEND)
    except FileNotFoundError:
        return True
    with file:
        state = os.fstat(file.fileno())
        # The lock speaks for the processes of this machine only: other ones may not share it.
        # A claim of an older version does not say whose it is; its lock does.
        owner = _owner(os.pread(file.fileno(), MOST_WORDS, 0))
        here = owner.get("boot", _boot()) == _boot()
        gone = here and _lock(file)
        if not gone and not _PATIENCE.is_over(path, (state.st_ino, state.st_size)):
            return False
        aside = path.with_name(f".{secrets.token_hex(8)}.gone")
        with suppress(FileNotFoundError):
            os.rename(path, aside)
            if not _is_current(file, aside):
                # Another process took it over and claimed it meanwhile; that claim goes back.
                with suppress(FileExistsError):
                    os.link(aside, path)
            aside.unlink(missing_ok=True)
    return True


def _holder(path: Path) -> dict[str, Any] | None:
    """Who holds a claim; None if nobody does."""
    try:
        with open_plain(path) as file:
            owner = _owner(file.read(MOST_WORDS))
            return None if owner.get("boot", _boot()) == _boot() and _lock(file) else owner
    except OSError:
        return None


def _owner(words: bytes) -> dict[str, Any]:
    """What a claim says of its owner; nothing where it cannot be read."""
    try:
        owner = json.loads(words.partition(b"\n")[0] or b"{}")
    except (ValueError, RecursionError):
        return {}
    return owner if isinstance(owner, dict) else {}


def _boot() -> str:
    """The running system that locks are shared in: its boot, or the host's name where there is no such id."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return socket.gethostname()


def _beat(file: IO[bytes], ended: threading.Event) -> None:
    """Make a claim longer until it ends; a full disk ends the beats and not the work."""
    while not ended.wait(BEAT):
        with suppress(OSError, ValueError):
            file.write(b".")
            file.flush()


def _lock(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _is_current(file: IO[bytes], path: Path) -> bool:
    """Whether an open file is still the one under this name."""
    try:
        return os.fstat(file.fileno()).st_ino == path.lstat().st_ino
    except FileNotFoundError:
        return False
