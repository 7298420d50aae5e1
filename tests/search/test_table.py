"""The table: order, rows, edits and columns; frozen, and without an object per candidate."""

from dataclasses import FrozenInstanceError

import pytest
import torch

from finite_calculus.models import Edit
from finite_calculus.search import score, token_family
from tests.search.dense import sample


def test_topk_is_the_order_of_a_full_sort(embedded) -> None:
    table = score(embedded.capture)
    keys = {"either": table.effect.abs(), "answer": table.effect, "versus": -table.effect}
    for towards, column in keys.items():
        full = sorted(range(len(table)), key=lambda i: (-float(column[i]), i))
        assert table.order(50, towards=towards) == full[:50]
        assert [row.index for row in table.topk(50, towards=towards)] == full[:50]
    values = table.value.abs()
    assert float(table.topk(1, by="value")[0].value) in (float(values.max()), -float(values.max()))
    assert table.topk(0) == ()
    assert len(table.order(10**6)) == len(table)


def test_ties_go_to_the_earlier_row(embedded) -> None:
    table = score(embedded.capture)
    zeros = (table.value == 0).nonzero().squeeze(-1).tolist()
    rest = len(table) - len(zeros)
    assert table.order(rest + 5, by="value")[rest:] == zeros[:5]


def test_a_row_names_the_edit_that_it_stands_for(embedded) -> None:
    tokenizer = embedded.instrument.tokenizer
    table = score(embedded.capture, tokenizer=tokenizer)
    for index in sample(20, len(table)):
        row, edit = table.row(index), table.edit(index)
        assert (row.layer, row.tokens) == (edit.layer, edit.tokens)
        assert row.layer == int(table.layer[index])
        assert row.text == tokenizer.decode([int(embedded.capture.ids[row.tokens[0]])])
        assert row.effect == float(table.effect[index])


def test_columns_hold_every_row(embedded) -> None:
    table = score(embedded.capture)
    columns = table.columns()
    assert {len(column) for column in columns.values()} == {len(table)}
    for index in sample(5, len(table)):
        row = table.row(index)
        assert (columns["layer"][index], columns["tokens"][index]) == (row.layer, row.tokens)
        assert columns["effect"][index] == row.effect


def test_the_table_is_frozen_and_scoring_makes_no_edit_per_candidate(embedded, monkeypatch) -> None:
    objects: list[str] = []
    genuine = Edit.__init__
    monkeypatch.setattr(
        Edit, "__init__", lambda self, *a, **k: (objects.append("edit"), genuine(self, *a, **k))[1]
    )
    for kind in token_family().kinds:
        original = type(kind).at
        monkeypatch.setattr(
            type(kind),
            "at",
            lambda self, layer, tokens, original=original: (
                objects.append("kind"),
                original(self, layer, tokens),
            )[1],
        )
    table = score(embedded.capture)
    assert len(objects) < 200 < len(table)
    assert objects
    with pytest.raises(FrozenInstanceError):
        table.effect = torch.zeros(1)  # type: ignore[misc]


def test_pandas_is_asked_for_by_name_where_it_is_missing(embedded, monkeypatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        score(embedded.capture).to_pandas()


def test_pandas_is_given_the_columns_of_the_table(embedded, monkeypatch) -> None:
    import sys
    from types import SimpleNamespace

    monkeypatch.setitem(sys.modules, "pandas", SimpleNamespace(DataFrame=lambda columns: columns))
    table = score(embedded.capture)
    assert table.to_pandas().keys() == table.columns().keys()


def test_bad_arguments_are_refused(embedded) -> None:
    table = score(embedded.capture)
    with pytest.raises(ValueError, match="`by` must be one of"):
        table.topk(3, by="size")
    with pytest.raises(ValueError, match="must not be negative"):
        table.topk(-1)
    with pytest.raises(IndexError, match="`index` must lie in"):
        table.row(len(table))


@pytest.mark.usefixtures("unchecked_shapes")
def test_an_unknown_side_is_refused(embedded) -> None:
    with pytest.raises(ValueError, match="`towards` must be one of"):
        score(embedded.capture).topk(3, towards="up")  # type: ignore[arg-type]
