"""Rows: a dataclass gives the schema, the bytes repeat, and what does not fit is refused by name."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import pyarrow as pa
import pytest

from finite_calculus.harness import Row, StoreError, Tables
from finite_calculus.harness.metrics import unresolved_note
from finite_calculus.harness.rows import decode_rows, encode_rows, read_table, schema_of
from finite_calculus.harness.untrusted import require_schema


@dataclass(frozen=True)
class Figure(Row):
    """A row with every kind of column."""

    name: str
    count: Annotated[int, pa.int32()]
    size: float
    right: bool
    other: float | None


ROWS = [Figure("a", 1, 0.1, True, None), Figure("b", 2, -0.0, False, 1e-300)]


def test_the_fields_give_the_schema() -> None:
    schema = schema_of(Figure)
    assert schema.names == ["name", "count", "size", "right", "other"]
    assert [str(t) for t in schema.types] == ["string", "int32", "double", "bool", "double"]
    assert [f.nullable for f in schema] == [False, False, False, False, True]


def test_rows_come_back_as_they_were_and_the_bytes_repeat(tmp_path: Path) -> None:
    blob = encode_rows(ROWS, Figure, unit="u")
    assert blob == encode_rows(ROWS, Figure, unit="u")
    (tmp_path / "t.parquet").write_bytes(blob)
    table = read_table(tmp_path / "t.parquet")
    assert decode_rows(table, Figure) == ROWS
    assert Tables({"figures": Figure}, {"figures": table}).rows(Figure) == ROWS
    assert Tables({"figures": Figure}, {}).rows(Figure) == []


def test_what_does_not_fit_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="`name` of Figure must not be None"):
        encode_rows([Figure(None, 1, 0.1, True, None)], Figure)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="Rows must be Figure; got Row"):
        encode_rows([Row()], Figure)
    (tmp_path / "t.parquet").write_bytes(b"no")
    with pytest.raises(StoreError, match=r"t\.parquet must be a Parquet file"):
        read_table(tmp_path / "t.parquet")
    other = pa.table({"name": ["a"], "extra": [1]})
    with pytest.raises(StoreError, match="its columns and no others; count, extra, other"):
        decode_rows(other, Figure)


@dataclass(frozen=True)
class Later(Figure):
    """The same table with a column that came later."""

    known: bool | None = None


def test_a_column_that_came_later_has_its_default_in_older_tables(tmp_path: Path) -> None:
    (tmp_path / "t.parquet").write_bytes(encode_rows(ROWS, Figure))
    table = read_table(tmp_path / "t.parquet")
    assert [row.known for row in decode_rows(table, Later)] == [None, None]
    require_schema("t", table, Later)
    newer = pa.table({**{name: table[name] for name in table.column_names}, "known": [True, False]})
    assert [row.known for row in decode_rows(newer, Later)] == [True, False]
    with pytest.raises(StoreError, match="its columns and no others; known"):
        decode_rows(newer, Figure)
    with pytest.raises(StoreError, match="its columns and no others; known differ in t"):
        require_schema(
            "t", pa.table({**{n: table[n] for n in table.column_names}, "known": [1, 2]}), Later
        )
    with pytest.raises(StoreError, match="its columns and no others; count differ in t"):
        require_schema("t", table.drop_columns(["count"]), Later)


def test_effects_that_are_not_resolved_are_counted_where_somebody_asked() -> None:
    assert unresolved_note([None, None]) == unresolved_note([True]) == ""
    assert unresolved_note([None, False, True]).startswith(" 1 of 2 effects are not resolved")


def test_a_field_of_another_type_is_refused_when_the_schema_is_made() -> None:
    @dataclass(frozen=True)
    class Odd(Row):
        path: Path

    with pytest.raises(TypeError, match="`path` of Odd must be a text, number or boolean"):
        schema_of(Odd)
