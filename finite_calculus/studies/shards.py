"""Immutable shards: the files of one finished unit, committed whole or not at all.

A shard is a directory with its files and a seal. It is written under a temporary name, every file
and the directory are flushed to the disk, and then it is renamed, which is atomic: whatever has its
final name is complete. The seal holds the sha256 of every file and the fingerprint of the run.
"""

import io
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from finite_calculus.studies.settings import digest

SEAL = "seal.json"
PART = ".part"


class ShardError(ValueError):
    """A file of a run that is damaged, foreign or in the way; it is named and left as it is."""


def commit(
    target: Path, files: Mapping[str, bytes], *, fingerprint: str, seconds: float = 0.0
) -> None:
    """Write a shard atomically; a target that exists is refused, never overwritten."""
    if target.exists():
        raise ShardError(f"{target.name} must not exist yet; it does. Nothing is overwritten.")
    part = target.with_name(target.name + PART)
    part.mkdir(parents=True)
    for name, blob in files.items():
        write_file(part / name, blob)
    seal = {
        "unit": target.name,
        "fingerprint": fingerprint,
        "sha256": {name: digest(blob) for name, blob in files.items()},
        "seconds": seconds,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_file(part / SEAL, json.dumps(seal, indent=1).encode())
    _flush_directory(part)
    os.rename(part, target)
    _flush_directory(target.parent)


def write_file(path: Path, blob: bytes) -> None:
    """Write bytes and flush them to the disk; the file must not exist."""
    with path.open("xb") as file:
        file.write(blob)
        file.flush()
        os.fsync(file.fileno())


def replace_file(path: Path, blob: bytes) -> None:
    """Write a single file whole or not at all: temporary, flush, rename."""
    part = path.with_name(path.name + PART)
    part.unlink(missing_ok=True)
    write_file(part, blob)
    os.replace(part, path)
    _flush_directory(path.parent)


def discard_part(part: Path, expected: Sequence[str]) -> None:
    """Remove what an interrupted commit left; a file that no commit writes is foreign and stays."""
    foreign = sorted(path.name for path in part.iterdir() if path.name not in {*expected, SEAL})
    if foreign:
        raise ShardError(
            f"{part.name} must hold only files of an interrupted commit; {foreign[0]} is foreign. "
            f"Move it away and run again."
        )
    shutil.rmtree(part)


def problems(shard: Path, fingerprint: str) -> list[str]:
    """What is wrong with a shard, file by file; nothing if it is whole and of this run."""
    try:
        seal = json.loads((shard / SEAL).read_text())
        hashes, owner = dict(seal["sha256"]), seal["fingerprint"]
    except (OSError, ValueError, KeyError, TypeError):
        return [f"{shard.name}: no readable {SEAL}; it was not committed by a run"]
    if owner != fingerprint or seal.get("unit") != shard.name:
        return [f"{shard.name}: foreign; its seal is of unit {seal.get('unit')} of another run"]
    found = [f"{shard.name}/{name}: {word}" for name, word in _changed(shard, hashes)]
    extra = {path.name for path in shard.iterdir()} - {*hashes, SEAL}
    return found + [f"{shard.name}/{name}: foreign; no seal names it" for name in sorted(extra)]


def encode_table(rows: Sequence[Mapping[str, Any]], schema: pa.Schema, **words: str) -> bytes:
    """Rows as Parquet with the given schema; `words` go into its metadata. The bytes repeat."""
    table = pa.Table.from_pylist([dict(row) for row in rows], schema=schema.with_metadata(words))
    return encode_arrow(table)


def encode_arrow(table: pa.Table) -> bytes:
    """An Arrow table as Parquet."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def read_table(path: Path) -> pa.Table:
    """A Parquet file as an Arrow table; refuses what is not one."""
    try:
        return pq.ParquetFile(path).read()
    except (OSError, pa.ArrowInvalid) as error:
        raise ShardError(
            f"{path.name} must be a Parquet file; it is not readable: {error}"
        ) from None


def _changed(shard: Path, hashes: Mapping[str, str]) -> list[tuple[str, str]]:
    wrong = []
    for name, wanted in sorted(hashes.items()):
        path = shard / name
        if not path.is_file():
            wrong.append((name, "missing"))
        elif (got := digest(path.read_bytes())) != wanted:
            wrong.append((name, f"damaged; its sha256 is {got[:12]}…, sealed as {wanted[:12]}…"))
    return wrong


def _flush_directory(path: Path) -> None:
    """Flush the names in a directory, without which a rename may be lost with the power."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
