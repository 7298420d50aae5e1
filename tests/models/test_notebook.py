"""In a notebook: an instrument without a block, objects in a line, tables in colour."""

import gc
import re
from xml.etree import ElementTree

import pytest
import torch
from transformers import AttentionInterface

from finite_calculus.models import Delete, KeyShift, QueryEdit, Replace, attach
from finite_calculus.models.install import _INSTALLED
from finite_calculus.models.tiny import tiny_model
from finite_calculus.models.words import progress_bar
from finite_calculus.search import calibrate, score


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2")


@pytest.fixture(scope="module")
def scored(model):
    ids = torch.randint(3, 96, (12,), generator=torch.Generator().manual_seed(1))
    with attach(model) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5, layers=[1, 2], curvature=2)
        yield instrument, capture, score(capture)


def installed(model) -> str:
    return model.config._attn_implementation


def test_an_instrument_works_without_a_block_until_it_is_closed(ids):
    model = tiny_model("qwen2")
    before = installed(model)
    instrument = attach(model)
    assert instrument.attached
    assert installed(model) == instrument.name
    capture = instrument.capture(ids, answer=3, versus=5)
    instrument.close()
    instrument.close()
    assert installed(model) == before
    assert instrument.name not in AttentionInterface._global_mapping
    assert repr(instrument) == "Instrument(Qwen2ForCausalLM, closed)"
    with pytest.raises(RuntimeError, match=r"or before `close\(\)`"):
        instrument.execute(capture, [Delete(1, (3,))])


def test_a_forgotten_instrument_restores_its_model():
    model = tiny_model("qwen2")
    before, known = installed(model), set(_INSTALLED)
    instrument = attach(model)
    assert set(_INSTALLED) - known == {instrument.name}
    del instrument
    gc.collect()
    assert installed(model) == before
    assert set(_INSTALLED) == known


def test_a_cell_run_twice_leaves_one_instrument_that_works(ids):
    model = tiny_model("qwen2")
    before = installed(model)
    instrument = attach(model)
    instrument = attach(model)  # the first one goes away under it
    gc.collect()
    assert installed(model) == instrument.name
    instrument.capture(ids, answer=3, versus=5, layers=[1])
    instrument.close()
    assert installed(model) == before


@pytest.mark.parametrize("first", [0, 1])
def test_instruments_may_be_closed_in_any_order(ids, first):
    model = tiny_model("qwen2")
    before = installed(model)
    pair = [attach(model), attach(model)]
    pair[first].close()
    left = pair[1 - first]
    assert installed(model) == left.name
    left.capture(ids, answer=3, versus=5, layers=[1])
    left.close()
    assert installed(model) == before


def test_every_object_shows_itself_in_a_line(scored):
    instrument, capture, table = scored
    layer = capture.layer(1)
    edits = [
        Replace(1, (3,), capture),
        KeyShift(1, (3,), 2.0, torch.ones(4, dtype=torch.bool)),
        QueryEdit(1, (), torch.zeros(6, 8)),
        Delete(1, tuple(range(9))),
    ]
    execution = instrument.execute(capture, edits)
    shown = [instrument, capture, layer, layer.bank(), table, table.parts[0], instrument.probed[0]]
    shown += [*edits, execution, *execution.outcomes, *map(capture.predict, edits)]
    shown += [instrument.prefix(capture.ids), calibrate(instrument, table).downstream]
    for item in shown:
        text = repr(item)
        assert type(item).__name__ in text
        assert len(text) < 1200, text
        assert "\n" not in text
        assert "tensor(" not in text
    assert "keys=float32(2, 12, 8)" in repr(layer)
    assert repr(edits[3]) == "Delete(layer=1, tokens=(0, 1, 2, 3, 4, 5, 6, 7, 8))"


def test_a_table_is_html_with_its_texts_escaped_and_tokens_coloured_by_effect(scored):
    _, capture, _ = scored

    class Sly:
        def decode(self, ids):
            return "<script>&\"'" if ids[0] % 2 else "word "

    table = score(capture, tokenizer=Sly())
    page = table._repr_html_()
    assert "<script" not in page
    root = ElementTree.fromstring(page)
    spans = root.find("div").findall("span")
    assert [span.text for span in spans] == list(table.text)
    rows = root.find("table").find("tbody").findall("tr")
    assert len(rows) == 10
    alphas = []
    for token, span in enumerate(spans):
        effects = [float(row.second) for row in table.rows() if token in row.tokens]
        best = max(effects, key=abs)
        red, alpha = re.search(r"rgba\((\d+), \d+, \d+, ([\d.]+)\)", span.get("style")).groups()
        assert red == ("33" if best > 0 else "178")
        assert f"{best:+.4f}" in span.get("title")
        alphas.append((abs(best), float(alpha)))
    assert [alpha for _, alpha in sorted(alphas)] == sorted(alpha for _, alpha in alphas)
    assert max(alphas)[1] == 0.75


def test_what_is_not_to_be_trusted_is_marked_in_html(scored):
    instrument, _, table = scored
    checked = calibrate(instrument, table)
    shown = checked.topk(10, by="certain")
    page = checked._repr_html_().partition("<table>")[2]
    marks = [" ?</td>" in row for row in page.split("</tr>")[1:11]]
    assert marks == [row.trusted is False for row in shown]
    cells = [re.findall(r"<td>([^<]*)</td>", row)[-2:] for row in page.split("</tr>")[1:11]]
    executed = checked.calibrated.executed
    done = [executed[row.index] for row in shown]
    assert [one for _, one in cells] == ["" if e.isnan() else f"{float(e):+.4f}" for e in done]
    assert any(one for _, one in cells)
    assert [one.removesuffix(" ?") for one, _ in cells] == [
        f"{row.corrected:+.4f}" for row in shown
    ]
    assert "nothing was executed" in table._repr_html_()


def test_a_bar_is_shown_in_a_notebook_and_on_a_terminal_alone(monkeypatch, capsys):
    from tqdm.std import tqdm

    from finite_calculus.models import words

    class Widget(tqdm):
        pass

    Widget.__module__ = "tqdm.notebook"
    assert progress_bar(3, quiet=False, title="a", unit="b").disable
    monkeypatch.setattr(words, "tqdm", Widget)
    assert not progress_bar(3, quiet=False, title="a", unit="b").disable
    assert progress_bar(3, quiet=True, title="a", unit="b").disable
