"""The cost study: every part is timed, what is timed is right, and the summary says that times vary."""

from pathlib import Path
from typing import Any

import pytest

from finite_calculus.harness import Records, Tables
from finite_calculus.harness.records import failed_checks, read_saved
from finite_calculus.harness.runner import run
from finite_calculus.harness.summary import summary_files
from finite_calculus.studies.positional_cost import STUDY, CostSettings
from finite_calculus.studies.positional_cost.report import report
from finite_calculus.studies.positional_cost.rows import PARTS, Cost


def test_costs_are_of_every_part_of_every_variant(embedded: Any, tmp_path: Path) -> None:
    values = {"model": "embedded", "tasks": ("ordered",), "sets": 1, "shifts": (16,)}
    settings = CostSettings.complete(values, 4)
    assert settings.layers == (0, 2, 3)
    run(STUDY, settings, tmp_path / "run", loaded=embedded)
    saved = read_saved(tmp_path / "run")
    rows = saved.records.rows(Cost)
    assert [row.variant for row in rows] == [0, 1, 2, 3, 4]
    assert all(getattr(row, part) > 0 for row in rows for part in (*PARTS, "plain"))
    assert {row.edits for row in rows} == {3 * 4}
    assert failed_checks(tmp_path / "run") == ""
    head = summary_files(saved)["summary.md"].decode().splitlines()[0]
    assert "timings: another run gives other numbers" in head


def test_the_report_divides_by_edits_and_compares_with_a_plain_pass() -> None:
    class Listed(Tables):
        def rows(self, kind: Any) -> list[Cost]:
            return [Cost("ordered", 0, n, 100, 4, 0.1, 0.1, 0.1, 0.1, 0.4, 0.6) for n in range(2)]

    first, total = next(iter(report(Records(Listed({}, {}), {})))).rows
    assert first[1:] == total[1:]
    assert first[3:8] == pytest.approx((25, 25, 25, 25, 100))
    assert first[8:] == pytest.approx((200, 100, 600, 3, 5))


def test_the_study_needs_a_model() -> None:
    with pytest.raises(ValueError, match="needs a model; its depth is not known"):
        CostSettings.complete({"model": "embedded"}, None)
    settings = CostSettings.complete({"model": "smollm2-135m-instruct"}, 30)
    assert settings.folders == ("data",)
    assert settings.layers == (0, 15, 22)
