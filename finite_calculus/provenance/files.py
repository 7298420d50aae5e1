"""Files that are there whole or not at all, also after the power has failed."""

import os
from pathlib import Path

PART = ".part"


def write_file(path: Path, blob: bytes) -> None:
    """Write bytes and flush them to the disk; the file must not exist."""
    with path.open("xb") as file:
        file.write(blob)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, blob: bytes) -> None:
    """Write a single file under a temporary name, flush it, and rename it."""
    part = path.with_name(path.name + PART)
    part.unlink(missing_ok=True)
    write_file(part, blob)
    os.replace(part, path)
    flush_directory(path.parent)


def flush_directory(path: Path) -> None:
    """Flush the names in a directory, without which a rename may be lost with the power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
