"""Tables from files that somebody else may have written: what they say of themselves, and bounded reading.

A Parquet file of a few kilobytes can claim a billion rows, or repeat a text of a megabyte a million times;
what it would take is looked at before it is read, and while it is read.
"""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from finite_calculus.harness.errors import StoreError
from finite_calculus.harness.rows import Row, odd_columns, read_table, schema_of
from finite_calculus.provenance.files import open_plain

# Of one unit's table: its cells, and its bytes in memory.
MOST_CELLS, MOST_BYTES = 1 << 27, 1 << 31
_AT_ONCE = 1 << 28


def metadata_of(path: Path) -> dict[str, str]:
    """What the metadata of a table says."""
    words = _footer(path).metadata or {}
    return {
        key.decode(errors="replace"): word.decode(errors="replace") for key, word in words.items()
    }


def read_bounded(path: Path) -> pa.Table:
    """A table without its metadata, as `rows.read_table` reads it; refuses one that would fill the memory."""
    footer = _footer(path)
    stored = sum(footer.row_group(n).total_byte_size for n in range(footer.num_row_groups))
    if footer.num_rows < 0 or footer.num_rows * max(footer.num_columns, 1) > MOST_CELLS:
        raise StoreError(
            f"{path.name} must have at most {MOST_CELLS} cells; it claims {footer.num_rows} rows of "
            f"{footer.num_columns} columns."
        )
    # Each cell may repeat all that a row group stores.
    if footer.num_rows * max(stored, 1) <= _AT_ONCE:
        return read_table(path)
    batches, size = [], 0
    try:
        with open_plain(path) as file:
            parquet = pq.ParquetFile(file)
            for batch in parquet.iter_batches(max(1, _AT_ONCE // max(stored, 1))):
                batches.append(batch)
                size += batch.nbytes
                if size > MOST_BYTES:
                    raise StoreError(
                        f"{path.name} must take at most {MOST_BYTES} bytes; it takes more."
                    )
            schema = parquet.schema_arrow
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None
    return pa.Table.from_batches(batches, schema).combine_chunks().replace_schema_metadata(None)


def require_schema(name: str, table: pa.Table, kind: type[Row]) -> None:
    """Refuse a table whose columns or types are not those of its rows; a default may stand in for one."""
    expected = {field.name: field.type for field in schema_of(kind)}
    got = {field.name: field.type for field in table.schema}
    odd = {*odd_columns(table.column_names, kind)}
    odd |= {key for key in {*expected} & {*got} if expected[key] != got[key]}
    if odd:
        differ = ", ".join(sorted(odd))
        raise StoreError(
            f"A table of {kind.__name__} must have its columns and no others; {differ} differ in {name}. It "
            f"was written by another version, or by none."
        )


def _footer(path: Path) -> pq.FileMetaData:
    try:
        with open_plain(path) as file:
            return pq.read_metadata(file)
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(path, error) from None


def _unreadable(path: Path, error: Exception) -> StoreError:
    return StoreError(f"{path.name} must be a Parquet file; it is not readable: {error}")
