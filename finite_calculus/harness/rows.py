"""Tables from row dataclasses: a row's fields are the columns, and their types give the Arrow schema.

The dataclass is the only home of a column's name. `int`, `float`, `str` and `bool` are 64-bit integers,
doubles, texts and booleans; `X | None` may be missing; `Annotated[int, pa.int32()]` names another Arrow type.
"""

import dataclasses
import io
import types
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from finite_calculus.harness.errors import StoreError

_ARROW = {str: pa.string(), int: pa.int64(), float: pa.float64(), bool: pa.bool_()}


@dataclass(frozen=True)
class Row:
    """One row of a table; a table is declared by a frozen dataclass that extends this one."""


R = TypeVar("R", bound=Row)


def schema_of(kind: type[Row]) -> pa.Schema:
    """The Arrow schema of a row's fields, in their order."""
    hints = get_type_hints(kind, include_extras=True)
    return pa.schema([_field(kind, f.name, hints[f.name]) for f in dataclasses.fields(kind)])


def encode_rows(rows: Sequence[Row], kind: type[Row], **words: str) -> bytes:
    """Rows as Parquet; `words` go into its metadata. The bytes repeat."""
    schema = schema_of(kind)
    other = next((row for row in rows if type(row) is not kind), None)
    if other is not None:
        raise TypeError(f"Rows must be {kind.__name__}; got {type(other).__name__}.")
    table = pa.Table.from_pylist([_plain(row) for row in rows], schema=schema)
    for field in schema:
        if not field.nullable and table[field.name].null_count:
            raise TypeError(f"`{field.name}` of {kind.__name__} must not be None; one is.")
    return encode_table(table.replace_schema_metadata(words))


def encode_table(table: pa.Table) -> bytes:
    """An Arrow table as Parquet."""
    buffer = io.BytesIO()
    pq.write_table(table, buffer, compression="zstd")
    return buffer.getvalue()


def read_table(path: Path) -> pa.Table:
    """A Parquet file as an Arrow table, without its metadata; refuses what is not one."""
    try:
        table = pq.ParquetFile(path).read()
    except (OSError, pa.ArrowInvalid) as error:
        raise StoreError(
            f"{path.name} must be a Parquet file; it is not readable: {error}"
        ) from None
    # The metadata of a shard names its unit; a table has no unit.
    return table.replace_schema_metadata(None)


def decode_rows(table: pa.Table, kind: type[R]) -> list[R]:
    """The rows of a table, which must have the columns of the dataclass.

    Columns with a default may be missing: they came later than the table.
    """
    odd = odd_columns(table.column_names, kind)
    if odd:
        raise StoreError(
            f"A table of {kind.__name__} must have its columns and no others; {', '.join(odd)} "
            f"differ. It was written by another version."
        )
    return [kind(**row) for row in table.to_pylist()]


def odd_columns(columns: Sequence[str], kind: type[Row]) -> list[str]:
    """Columns that a table has beyond those of a row, or lacks without a default; each named once."""
    names = {field.name: field.default is dataclasses.MISSING for field in dataclasses.fields(kind)}
    lacking = {name for name, needed in names.items() if needed} - set(columns)
    twice = {name for name in columns if columns.count(name) > 1}
    return sorted(lacking | (set(columns) - set(names)) | twice)


@dataclass(frozen=True, eq=False)
class Tables:
    """The tables of a run, by the dataclass of their rows."""

    kinds: Mapping[str, type[Row]]
    tables: Mapping[str, pa.Table]

    def rows(self, kind: type[R]) -> list[R]:
        """All rows of one kind, in the order of the units; none if no unit has left any."""
        (name,) = [name for name, listed in self.kinds.items() if listed is kind]
        return decode_rows(self.tables[name], kind) if name in self.tables else []


def _plain(row: Row) -> dict[str, Any]:
    return {field.name: getattr(row, field.name) for field in dataclasses.fields(row)}


def _field(kind: type[Row], name: str, hint: Any) -> pa.Field:
    if get_origin(hint) in (Union, types.UnionType):
        inner = [part for part in get_args(hint) if part is not type(None)]
        if len(inner) == 1:
            return _field(kind, name, inner[0]).with_nullable(True)
    if get_origin(hint) is Annotated:
        base, *notes = get_args(hint)
        arrow = next((note for note in notes if isinstance(note, pa.DataType)), None)
        return _field(kind, name, base) if arrow is None else pa.field(name, arrow, nullable=False)
    if hint not in _ARROW:
        raise TypeError(
            f"`{name}` of {kind.__name__} must be a text, number or boolean, or annotated with its "
            f"Arrow type; got {hint}."
        )
    return pa.field(name, _ARROW[hint], nullable=False)
