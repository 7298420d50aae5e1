"""Immutable shards: the files of one finished unit, committed whole or not at all.

A shard is a directory with its files and a seal. It is written under a name of its own, every file and the
directory are flushed to the disk, and then it is renamed, which is atomic and refused where the name is
taken: whatever has its final name is complete, and the first commit is the unit's. A second one, of a worker
that was thought to be gone, is compared with it and not kept. The seal holds the sha256 of every file, the
fingerprint of its stage and the sha256 of the tensors that all units share. A shard that was taken from an
archive lacks the captures; its seal keeps their sha256 under `dropped`.

Nothing in a shard is trusted: names are plain names, files are plain files, and no link is followed.
"""

import json
import os
import re
import secrets
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from finite_calculus.harness.errors import StoreError
from finite_calculus.harness.untrusted import metadata_of
from finite_calculus.provenance.digests import digest
from finite_calculus.provenance.files import (
    PART,
    flush_directory,
    is_folder,
    read_json,
    sha256_of_plain,
    write_file,
)

SEAL = "seal.json"
_WRITTEN = (".parquet", ".safetensors", ".json")
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.\-]{0,199}")
_PART = re.compile(r"(.+?)(?:\.[0-9a-f]{16})?" + re.escape(PART))


def commit(
    target: Path,
    files: Mapping[str, bytes],
    *,
    fingerprint: str,
    seconds: float = 0.0,
    dropped: Mapping[str, str] | None = None,
    weights: str | None = None,
    repeatable: bool = True,
) -> bool:
    """Write a shard atomically; False if another process was faster, whose shard must then be the same.

    Nothing is overwritten. `repeatable` is False for what no two computations have in common; `weights` is
    the sha256 of the tensors that all units share.
    """
    part = target.with_name(f"{target.name}.{secrets.token_hex(8)}{PART}")
    hashes = {name: digest(blob) for name, blob in files.items()}
    seal = {
        "unit": target.name,
        "fingerprint": fingerprint,
        "sha256": hashes,
        **({"dropped": dict(dropped)} if dropped else {}),
        **({"weights": weights} if weights else {}),
        "seconds": seconds,
        "finished": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    part.mkdir(parents=True)
    try:
        for name, blob in files.items():
            write_file(part / name, blob)
        write_file(part / SEAL, json.dumps(seal, indent=1).encode())
        flush_directory(part)
        os.rename(part, target)
    except OSError:
        # No space, no rights, or the name is taken: nothing of it stays.
        with suppress(OSError, StoreError):
            discard_part(part)
        if not target.is_symlink() and not target.exists():
            raise
        _require_same(target, hashes, fingerprint, repeatable)
        return False
    flush_directory(target.parent)
    return True


def _require_same(
    target: Path, hashes: Mapping[str, str], fingerprint: str, repeatable: bool
) -> None:
    """The shard that is there must be sound and hold the same bytes."""
    unsound = problems(target, fingerprint)
    if unsound:
        raise StoreError(
            f"{target.name} was committed before and is not sound, and nothing is overwritten. Move it away "
            f"and run again:\n  " + "\n  ".join(unsound)
        )
    kept = read_seal(target)["sha256"]
    odd = sorted(name for name in {*kept, *hashes} if kept.get(name) != hashes.get(name))
    if repeatable and odd:
        raise StoreError(
            f"{target.name} was committed before with other bytes in {', '.join(odd)}, and nothing is "
            f"overwritten. Two processes computed the same unit and differ: one machine or one of the two "
            f"records is wrong. Compute it again with `finite-calculus again`, or move it away and run again."
        )


def is_unit_name(name: str) -> bool:
    """Whether a unit can have this name: letters, digits, dots and dashes; none of an unfinished commit."""
    return _NAME.fullmatch(name) is not None and not name.endswith(PART)


def foreign_tables(shard: Path, seal: Mapping[str, Any]) -> list[str]:
    """Tables of a shard whose own metadata names another unit or stage than the seal."""
    wrong = []
    for name in (name for name in seal["sha256"] if name.endswith(".parquet")):
        try:
            words = metadata_of(shard / name)
        except StoreError as error:
            wrong.append(str(error))
            continue
        expected = {"unit": shard.name, "fingerprint": seal["fingerprint"]}
        odd = [key for key, value in expected.items() if words.get(key, value) != value]
        wrong += [
            f"{name}: foreign; it says that it is of {key} {words[key][:80]!r}" for key in odd
        ]
    return wrong


def unit_words(study: str, unit: str, fingerprint: str) -> dict[str, str]:
    """What the metadata of a unit's tables says."""
    return {"study": study, "unit": unit, "fingerprint": fingerprint}


def unit_of_part(name: str) -> str | None:
    """The unit that an unfinished commit is of, by its name; None for what is no such name."""
    match = _PART.fullmatch(name)
    return match[1] if match else None


def parts_of(target: Path) -> list[Path]:
    """What unfinished commits of a shard left beside it."""
    folder = target.parent
    names = sorted(os.listdir(folder)) if is_folder(folder) else []
    return [folder / name for name in names if unit_of_part(name) == target.name]


def discard_part(part: Path) -> None:
    """Remove what an interrupted commit left; a file that no commit writes is foreign and stays."""
    if not is_folder(part):
        if not os.path.lexists(part):
            return  # it was finished, or removed, meanwhile
        raise StoreError(
            f"{part.name} must be the folder of an interrupted commit; it is a file or a link. "
            f"Move it away and run again."
        )
    left = sorted(part.iterdir())
    foreign = [p.name for p in left if p.suffix not in _WRITTEN or p.is_symlink() or p.is_dir()]
    if foreign:
        raise StoreError(
            f"{part.name} must hold only files of an interrupted commit; {foreign[0]} is foreign. "
            f"Move it away and run again."
        )
    for path in left:
        path.unlink()
    part.rmdir()


def read_seal(shard: Path) -> dict[str, Any]:
    """The seal of a shard; refuses one that cannot be read, or that names anything but plain files."""
    try:
        if not is_folder(shard):
            raise ValueError("it is no folder")
        seal = read_json(shard / SEAL)
        hashes = {name: dict(seal.get(name, {})) for name in ("sha256", "dropped")}
        names = {**hashes["sha256"], **hashes["dropped"]}
        odd = [name for name in names if not (_NAME.fullmatch(name) and name.endswith(_WRITTEN))]
        if odd or SEAL in names or not all(isinstance(sha, str) for sha in names.values()):
            raise ValueError("it names what no run writes")
        weights = seal.get("weights")
        return {
            **seal,
            **hashes,
            "fingerprint": str(seal["fingerprint"]),
            "weights": None if weights is None else str(weights),
            "seconds": float(seal.get("seconds", 0.0)),
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
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
        return [
            f"{shard.name}: foreign; its seal is of unit {str(seal.get('unit'))[:80]} of another run"
        ]
    hashes = seal["sha256"]
    wrong = [f"{shard.name}/{name}: {word}" for name, word in _changed(shard, hashes)]
    extra = {path.name for path in shard.iterdir()} - {*hashes, SEAL}
    return wrong + [f"{shard.name}/{name}: foreign; no seal names it" for name in sorted(extra)]


def _changed(shard: Path, hashes: Mapping[str, str]) -> list[tuple[str, str]]:
    wrong = []
    for name, sealed in sorted(hashes.items()):
        try:
            actual = sha256_of_plain(shard / name)
        except FileNotFoundError:
            wrong.append((name, "missing"))
        except OSError as error:
            wrong.append((name, f"not readable: {error}"))
        else:
            words = f"damaged; its sha256 is {actual[:12]}…, sealed as {sealed[:12]}…"
            wrong += [] if actual == sealed else [(name, words)]
    return wrong
