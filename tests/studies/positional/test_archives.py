"""Saved archives of the positional study are balanced: the first sets of every task, each in full."""

from collections import Counter
from pathlib import Path

import pytest

from finite_calculus.harness.records import read_saved
from finite_calculus.studies.positional.rows import PositionalEdit
from finite_calculus.studies.positional.settings import BANDS

ROOT = Path(__file__).parents[3] / "results" / "positional"
VARIANTS, LAYERS = 5, 3


@pytest.mark.parametrize("name", sorted(path.name for path in ROOT.iterdir()))
def test_an_archive_holds_the_first_sets_of_every_task_in_full(name: str) -> None:
    saved = read_saved(ROOT / name)
    rows, settings = saved.records.rows(PositionalEdit), saved.settings.model_dump()
    assert len({row.place for row in rows}) == len(rows)
    counts = Counter((row.task, row.set) for row in rows)
    assert set(counts.values()) == {VARIANTS * LAYERS * len(BANDS) * len(settings["shifts"])}
    first = range(len(counts) // len(settings["tasks"]))
    assert set(counts) == {(task, number) for task in settings["tasks"] for number in first}
