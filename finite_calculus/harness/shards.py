"""Immutable shards: the files of one finished unit, committed whole or not at all.

A shard is a directory with its files and a seal. It is written under a temporary name, every file
and the directory are flushed to the disk, and then it is renamed, which is atomic: whatever has its
final name is complete. The seal holds the sha256 of every file and the fingerprint of its stage. A shard
that was taken from an archive lacks the captures; its seal keeps their sha256 under `dropped`.
"""

import json
import os
import shutil
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from finite_calculus.harness.errors import StoreError
from finite_calculus.provenance.digests import digest
from finite_calculus.provenance.files import PART, flush_directory, write_file

SEAL = "seal.json"
_WRITTEN = (".parquet", ".safetensors", ".json")


def commit(
    target: Path,
    files: Mapping[str, bytes],
    *,
    fingerprint: str,
    seconds: float = 0.0,
    dropped: Mapping[str, str] | None = None,
) -> None:
    """Write a shard atomically; a target that exists is refused, never overwritten."""
    if target.exists():
        raise StoreError(f"{target.name} must not exist yet; it does. Nothing is overwritten.")
    part = target.with_name(target.name + PART)
    part.mkdir(parents=True)
    for name, blob in files.items():
        write_file(part / name, blob)
    seal = {
        "unit": target.name,
        "fingerprint": fingerprint,
        "sha256": {name: digest(blob) for name, blob in files.items()},
        **({"dropped": dict(dropped)} if dropped else {}),
        "seconds": seconds,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    write_file(part / SEAL, json.dumps(seal, indent=1).encode())
    flush_directory(part)
    os.rename(part, target)
    flush_directory(target.parent)


def unit_words(study: str, unit: str, fingerprint: str) -> dict[str, str]:
    """What the metadata of a unit's tables says."""
    return {"study": study, "unit": unit, "fingerprint": fingerprint}


def discard_part(part: Path) -> None:
    """Remove what an interrupted commit left; a file that no commit writes is foreign and stays."""
    foreign = sorted(p.name for p in part.iterdir() if not p.name.endswith(_WRITTEN) or p.is_dir())
    if foreign:
        raise StoreError(
            f"{part.name} must hold only files of an interrupted commit; {foreign[0]} is foreign. "
            f"Move it away and run again."
        )
    shutil.rmtree(part)


def read_seal(shard: Path) -> dict[str, Any]:
    """The seal of a shard; refuses one that cannot be read."""
    try:
        seal = json.loads((shard / SEAL).read_text())
        return {
            **seal,
            "sha256": dict(seal["sha256"]),
            "dropped": dict(seal.get("dropped", {})),
            "fingerprint": str(seal["fingerprint"]),
        }
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(
            f"{shard.name}: no readable {SEAL}; it was not committed by a run"
        ) from None


def problems(shard: Path, fingerprint: str) -> list[str]:
    """What is wrong with a shard, file by file; nothing if it is whole and of this stage."""
    try:
        seal = read_seal(shard)
    except StoreError as error:
        return [str(error)]
    if seal["fingerprint"] != fingerprint or seal.get("unit") != shard.name:
        return [f"{shard.name}: foreign; its seal is of unit {seal.get('unit')} of another run"]
    hashes = seal["sha256"]
    wrong = [f"{shard.name}/{name}: {word}" for name, word in _changed(shard, hashes)]
    extra = {path.name for path in shard.iterdir()} - {*hashes, SEAL}
    return wrong + [f"{shard.name}/{name}: foreign; no seal names it" for name in sorted(extra)]


def _changed(shard: Path, hashes: Mapping[str, str]) -> list[tuple[str, str]]:
    wrong = []
    for name, sealed in sorted(hashes.items()):
        path = shard / name
        if not path.is_file():
            wrong.append((name, "missing"))
        elif (actual := digest(path.read_bytes())) != sealed:
            words = f"damaged; its sha256 is {actual[:12]}…, sealed as {sealed[:12]}…"
            wrong.append((name, words))
    return wrong
