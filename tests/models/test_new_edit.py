"""A new edit is one class: the command line, families, execution and the preflight know it by itself."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest

import finite_calculus
from finite_calculus.models import Edit, LayerBank, LayerCapture, attach
from finite_calculus.models.edits import Edits, register, registered_edits, unregister
from finite_calculus.models.edits.base import attended_tokens, replace_columns
from finite_calculus.models.noise import margin_budget
from finite_calculus.rounding import value_of
from finite_calculus.search import Family, execute_rows, score
from finite_calculus.search.specs import edit_help, parse_edit
from native_checks.bench import battery, idle_edits
from native_checks.preflight import preflight
from tests.search.dense import assert_near, dense_effect, tracked_effects

_DATA = shutil.ignore_patterns("*.safetensors", "__pycache__")


@dataclass(frozen=True, eq=False)
class NegateKeys(Edit):
    """Turn keys to the other side, times an amount."""

    by_column: ClassVar[bool] = True
    folds: ClassVar[bool] = True
    words: ClassVar[tuple[str, ...]] = ("negate",)

    size: float | int = 1.0

    def apply(self, layer: LayerCapture, bank: LayerBank) -> LayerBank:
        places = bank.places(self.columns(layer))
        return replace_columns(bank, places, keys=-self.size * bank.keys[:, places])

    @property
    def name(self) -> str:
        return f"negate ×{self.size:g}"

    @classmethod
    def examples(cls, layer: LayerCapture, donor: LayerCapture) -> Sequence[Edits]:
        return (cls(layer.layer, attended_tokens(layer)[:2]),)

    @classmethod
    def idle_examples(cls, layer: LayerCapture, tokens: tuple[int, ...]) -> Sequence[Edits]:
        return (cls(layer.layer, tokens, -1.0),)


@pytest.fixture
def registered() -> Iterator[None]:
    register(NegateKeys)
    yield
    unregister(NegateKeys)


def test_a_new_edit_is_parsed_scored_executed_and_put_into_the_battery(
    registered, tiny, ids
) -> None:
    with attach(tiny("llama")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        edit = parse_edit("negate:1:4-5:2", len(ids))
        assert isinstance(edit, NegateKeys)
        assert (edit.layer, edit.tokens, edit.size) == (1, (4, 5), 2.0)
        assert "negate" in edit_help()

        family = Family((NegateKeys.anywhere(2.0),), width=2)
        table = score(capture, family)
        places = {(row.layer, row.tokens): row for row in table.rows()}
        row = places[1, (4, 5)]
        assert row.kind == "negate ×2"
        # The family takes another route than the prediction of one edit: equal but for rounding.
        effect = tracked_effects(capture, family)["total"][row.index]
        assert float(value_of(effect)) == row.effect
        assert_near(effect, dense_effect(capture.layer(1), edit))
        (run,) = execute_rows(instrument, table, [row.index])
        assert run.local.within_bound
        assert run.effect != 0
        shared = instrument.execute(capture, [edit], path="shared").outcomes[0]
        # Two effects, each of two margins.
        budget = margin_budget(instrument.model, instrument.support.sites, ids, capture.margin)
        assert abs(shared.effect - run.effect) <= 4 * budget < abs(run.effect)

    layer = capture.layer(1)
    assert any(isinstance(item, NegateKeys) for item in battery(layer, layer))
    assert any(isinstance(item, NegateKeys) for item in idle_edits(layer))


def test_the_preflight_catches_a_new_edit_that_says_it_is_idle_and_is_not(
    registered, tiny, monkeypatch
) -> None:
    assert not preflight(tiny("qwen2")).failed
    wrong = classmethod(lambda cls, layer, tokens: (cls(layer.layer, tokens),))  # pyright: ignore[reportCallIssue]
    monkeypatch.setattr(NegateKeys, "idle_examples", wrong)
    assert preflight(tiny("qwen2")).failed == ("idle edits change nothing",)


def test_every_edit_has_examples_at_a_captured_layer(tiny, ids) -> None:
    with attach(tiny("llama")) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5).layer(1)
    for edit in registered_edits():
        assert edit.examples(layer, layer) or edit.idle_examples(layer, (3,)), edit
    with pytest.raises(NotImplementedError, match="Edit must define examples"):
        Edit.examples(layer, layer)


def test_a_word_belongs_to_one_edit(registered) -> None:
    again = type("Again", (NegateKeys,), {})
    with pytest.raises(
        ValueError, match="`words` of Again must not belong to another edit; negate"
    ):
        register(again)
    assert again not in registered_edits()


def test_a_file_in_the_folder_is_enough(tmp_path: Path) -> None:
    """A copy of the package with one more file knows its edit, without another line changed."""
    copy = tmp_path / "finite_calculus"
    shutil.copytree(Path(finite_calculus.__file__).parent, copy, ignore=_DATA)
    text = (copy / "models" / "edits" / "scale_values.py").read_text()
    text = text.replace("class ScaleValues", "class Fade").replace('("value",)', '("fade",)')
    (copy / "models" / "edits" / "fade.py").write_text(text)
    program = (
        "from finite_calculus.models.edits import registered_edits as r; print(r()[-1].__name__)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == "Fade"
