"""Files that commands write: whether they can be written is asked before any work is done."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import typer

from finite_calculus.provenance.files import replace_file

# The version of what the commands write as JSON: raised when a field changes its meaning or goes away.
SCHEMA = 1


def writable(path: Path | None) -> Path | None:
    """An output file as it was given; refused if it cannot be written. Missing folders are made later."""
    if path is None:
        return None
    if path.is_dir():
        raise typer.BadParameter(f"must be a file to write to; {path} is a directory.")
    if path.exists() and not path.is_file():
        return path  # a pipe or a terminal
    _try_folder(path, path.parent)
    if path.exists() and not os.access(path, os.W_OK):
        raise typer.BadParameter(f"cannot write {path}: it may not be changed.")
    return path


def writable_folder(path: Path | None) -> Path | None:
    """An output folder as it was given; refused if nothing can be written there. It is made later."""
    if path is not None:
        _try_folder(path, path)
    return path


def _try_folder(path: Path, folder: Path) -> None:
    """Write a file without a name in a folder, or in the one in which it will be made."""
    there = next(place for place in (folder, *folder.absolute().parents) if place.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        raise typer.BadParameter(f"cannot write {path}: {there}: {error.strerror}.") from None


def save_json(path: Path | None, content: dict[str, Any]) -> None:
    """Write JSON with its schema, whole or not at all; numbers that JSON does not know become null."""
    if path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        text = json.dumps(_plain({"schema": SCHEMA, **content}), indent=1, ensure_ascii=False)
        if path.exists() and not path.is_file():
            path.write_text(text + "\n")  # a pipe or a terminal, which nothing may replace
        else:
            replace_file(path, (text + "\n").encode())


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value
