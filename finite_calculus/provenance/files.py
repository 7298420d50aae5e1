"""Files that are there whole or not at all, also after the power has failed; and files that are only files.

What is read from a directory that somebody else may have written is opened without following a link and
without waiting for a pipe, and never beyond a size.
"""

import hashlib
import json
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

PART = ".part"
# No manifest of ours comes near it.
MOST_JSON = 256 << 20


class NotPlainError(OSError):
    """Something that should be a plain file and is a link, a pipe, a device or a folder, or too large."""


def write_file(path: Path, blob: bytes) -> None:
    """Write bytes and flush them to the disk; the file must not exist."""
    with path.open("xb") as file:
        file.write(blob)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, blob: bytes) -> None:
    """Write a single file under a name of its own, flush it, and rename it; nothing is left if that fails."""
    part = path.with_name(f".{path.name[:200]}.{secrets.token_hex(6)}{PART}")
    try:
        write_file(part, blob)
        os.replace(part, path)
    except BaseException:
        with suppress(OSError):
            part.unlink(missing_ok=True)
        raise
    flush_directory(path.parent)


def flush_directory(path: Path) -> None:
    """Flush the names in a directory, without which a rename may be lost with the power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def open_plain(path: Path, flags: int = os.O_RDONLY) -> IO[bytes]:
    """Open a plain file; a link is not followed, a pipe not waited for."""
    odd = NotPlainError(
        f"{path.name} must be a plain file; it is a link, a pipe, a device or a folder"
    )
    try:
        handle = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if path.is_symlink() or path.is_dir() or (path.exists() and not path.is_file()):
            raise odd from None
        raise error
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise odd
    return os.fdopen(handle, "rb" if flags == os.O_RDONLY else "ab")


def read_plain(path: Path, most: int | None = None) -> bytes:
    """The bytes of a plain file of at most so many."""
    with open_plain(path) as file:
        size = os.fstat(file.fileno()).st_size
        if most is not None and size > most:
            raise NotPlainError(f"{path.name} must be of at most {most} bytes; it has {size}")
        return file.read() if most is None else file.read(most)


def read_text(path: Path, most: int = MOST_JSON) -> str:
    """The UTF-8 text of a user's own file, which may be a link or a pipe, but must end."""
    with path.open("rb") as file:
        blob = file.read(most + 1)
    if len(blob) > most:
        raise ValueError(f"{path.name} must be a text of at most {most} bytes; it is longer")
    return blob.decode()


def read_json(path: Path, most: int = MOST_JSON) -> Any:
    """Plain data from a file; numbers that JSON does not know and nesting without end are a ValueError."""

    def refuse(word: str) -> Any:
        raise ValueError(f"{path.name} holds {word}, which is no number of JSON")

    def finite(word: str) -> float:
        return float(word) if abs(float(word)) < float("inf") else refuse(word)

    try:
        return json.loads(read_plain(path, most), parse_constant=refuse, parse_float=finite)
    except RecursionError:
        raise ValueError(f"{path.name} is nested too deeply") from None


def sha256_of_plain(path: Path) -> str:
    """sha256 of a plain file, read piece by piece."""
    total = hashlib.sha256()
    with open_plain(path) as file:
        while piece := file.read(1 << 20):
            total.update(piece)
    return total.hexdigest()


def is_folder(path: Path) -> bool:
    """Whether a path is a folder itself, not a link to one."""
    return path.is_dir() and not path.is_symlink()
