"""A shard as one archive, as an object store holds it: not compressed, plain files with plain names."""

import io
import shutil
import struct
import zipfile
from pathlib import Path

from finite_calculus.harness import shards
from finite_calculus.provenance.files import NotPlainError, read_plain

# What zipfile and we raise of archives that are none, or none of ours.
NO_ARCHIVE = (
    zipfile.BadZipFile,
    NotPlainError,
    FileExistsError,
    EOFError,
    RuntimeError,
    ValueError,
    struct.error,
)


def packed_shard(shard: Path) -> bytes:
    """A shard as one archive, not compressed."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for path in sorted(shard.iterdir()):
            archive.writestr(zipfile.ZipInfo(path.name), read_plain(path))
    return whole.getvalue()


def unpack(packed: Path, target: Path) -> None:
    """The files of an archive, whose names must be plain ones and whose bytes those that are stored."""
    with zipfile.ZipFile(packed) as archive:
        entries = archive.infolist()
        stored = all(each.compress_type == zipfile.ZIP_STORED for each in entries)
        size = sum(each.file_size for each in entries)
        if not stored or size > packed.stat().st_size or not all(_plain_entry(e) for e in entries):
            raise NotPlainError(f"{packed.name} must hold plain files, not compressed")
        for each in entries:
            with archive.open(each) as source, (target / each.filename).open("xb") as copy:
                shutil.copyfileobj(source, copy)


def _plain_entry(entry: zipfile.ZipInfo) -> bool:
    return shards.is_unit_name(entry.filename) and not entry.is_dir() and entry.header_offset >= 0
