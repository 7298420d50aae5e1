"""Claims: which process works on which unit, so that several may share a run and none does a unit twice.

A claim is a file that its owner keeps locked. The lock ends with the process, however it ends, so that a
claim whose owner is gone is free at once. Locks are those of the operating system: they hold between the
processes of one machine, and between machines where the file system passes them on.
"""

import fcntl
import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any

CLAIMS = "claims"


@contextmanager
def claimed(out: Path, unit: str) -> Iterator[bool]:
    """Hold the claim of a unit for a block; False if another process holds it."""
    path = out / CLAIMS / unit
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        mine = _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB) and _is_current(file, path)
        if not mine:
            yield False
            return
        try:
            _sign(file)
            yield True
        finally:
            # Removed while locked: whoever opened it meanwhile sees that it is no longer the claim.
            path.unlink(missing_ok=True)


@contextmanager
def exclusive(out: Path, name: str) -> Iterator[None]:
    """Wait for a lock of the whole run, for what one process does for all: opening it, its gate."""
    path = out / CLAIMS / f".{name}"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def holders(out: Path) -> dict[str, dict[str, Any]]:
    """The units that are being worked on, with the process that holds each."""
    folder = out / CLAIMS
    paths = sorted(folder.iterdir()) if folder.is_dir() else []
    return {
        path.name: owner
        for path in paths
        if not path.name.startswith(".") and (owner := _holder(path)) is not None
    }


def _holder(path: Path) -> dict[str, Any] | None:
    """Who holds a claim; None if nobody does."""
    try:
        with path.open("r+b") as file:
            if _lock(file, fcntl.LOCK_EX | fcntl.LOCK_NB):
                return None
            return json.loads(file.read() or b"{}")
    except (OSError, ValueError):
        return None


def _lock(file: IO[bytes], how: int) -> bool:
    try:
        fcntl.flock(file, how)
    except OSError:
        return False
    return True


def _is_current(file: IO[bytes], path: Path) -> bool:
    """Whether the locked file is still the one under this name."""
    try:
        return os.fstat(file.fileno()).st_ino == path.stat().st_ino
    except FileNotFoundError:
        return False


def _sign(file: IO[bytes]) -> None:
    owner = {
        "host": socket.gethostname(),
        "process": os.getpid(),
        "since": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    file.truncate(0)
    file.write(json.dumps(owner).encode())
    file.flush()
