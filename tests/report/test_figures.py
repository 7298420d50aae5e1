"""Figures come from saved records and say what the tables say."""

import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from finite_calculus.harness.figures import Figure, Panel, Series
from finite_calculus.harness.records import read_saved
from finite_calculus.harness.study import Records
from finite_calculus.harness.summary import report_figures, report_tables
from finite_calculus.report import explained, read_sources
from finite_calculus.report.audit_tables import audit_figure
from finite_calculus.report.drawing import _legend_columns, draw
from finite_calculus.report.sources import AuditSource
from finite_calculus.studies.runtime.figures import figure as runtime_figure
from finite_calculus.studies.runtime.rows import METHODS, MODES, Timing
from finite_calculus.studies.search.figures import KINDS

RESULTS = Path(__file__).parents[2] / "results"
EPS = float(np.finfo(float).eps)
ARCHIVES = {
    "joint-kv/stories15m": ["summary", "errors", "relative", "interaction", "strengths"],
    "positional/smollm2-135m-instruct": [
        "predicted-executed", "error-by-angle", "error-by-layer-and-band", "tightness",
        "band-interaction", "phase-context",
    ],
    "search/stories15m": ["predicted-executed", "error-by-layer-and-kind", "recall-cost"],
}  # fmt: skip


@pytest.fixture(scope="module")
def figures() -> dict[tuple[str, str], Figure]:
    return {
        (archive, figure.name): figure
        for archive in ARCHIVES
        for figure in report_figures(read_saved(RESULTS / archive))
    }


def test_every_study_draws_what_it_is_asked_for(figures) -> None:
    assert list(figures) == [(archive, name) for archive, each in ARCHIVES.items() for name in each]


def test_every_number_of_a_figure_is_one_and_every_interval_holds_its_point(figures) -> None:
    for figure in (*figures.values(), *explained.EXPLAINED):
        for series in (series for panel in figure.panels for series in panel.series):
            assert all(math.isfinite(y) for y in series.y)
            ends = zip(series.low, series.y, series.high, strict=True) if series.low else ()
            assert all(low <= y <= high for low, y, high in ends)


def test_errors_by_kind_are_means_of_the_table_of_the_study(figures) -> None:
    saved = read_saved(RESULTS / "search/stories15m")
    layers = next(t for t in report_tables(saved) if t.name == "kinds")
    by_layer, by_kind = figures["search/stories15m", "error-by-layer-and-kind"].panels
    column = layers.columns.index("exact write")
    exact = next(s for s in by_kind.series if s.name == "exact write")
    assert exact.x == KINDS
    for kind, error in enumerate(exact.y):
        own = [
            cell for row in layers.rows if row[1] == kind and isinstance(cell := row[column], float)
        ]
        assert min(own) <= error <= max(own)
    assert list(dict.fromkeys(row[0] for row in layers.rows)) == list(by_layer.series[0].x)


def test_the_kinds_of_the_figure_are_those_of_the_instrument() -> None:
    from finite_calculus.models.kinds import TOKEN_KINDS

    words = [re.sub(r"[^a-z]", "", f"{kind}".lower()) for kind in TOKEN_KINDS]
    assert len(KINDS) == len(TOKEN_KINDS)
    for named, kind in zip(KINDS, words, strict=True):
        first = {"odds": "odds", "delete": "delete", "value": "value"}.get(
            named.split()[0], "shift"
        )
        assert first in kind or named.split()[0] in kind


def test_the_shares_of_phase_and_context_sum_to_one(figures) -> None:
    for panel in figures["positional/smollm2-135m-instruct", "phase-context"].panels:
        for parts in zip(*(series.y for series in panel.series), strict=True):
            # Each part is a sum over at most 135 rows of projections of 576 numbers.
            assert abs(sum(parts) - 1) <= (135 + 576) * EPS


def test_no_bound_of_the_audit_lies_below_its_error() -> None:
    (audit,) = (s for s in read_sources([RESULTS / "audit"]) if isinstance(s, AuditSource))
    panels = audit_figure(audit.records).panels
    assert [panel.title for panel in panels] == ["float64", "float32"]
    assert all(min(panel.series[0].low) >= 1 for panel in panels)


def test_the_figure_of_run_times_shows_medians_and_leaves_out_what_was_not_timed() -> None:
    rows = [
        Timing("a case", 8, 2, 4, 1, 1, 4, mode, method, n, seconds)
        for mode in MODES
        for method in METHODS
        if (mode, method) != ("prepared", "fused")
        for n, seconds in enumerate((0.001, 0.003, 0.002))
    ]
    prepared, one, _ = runtime_figure(rows).panels
    assert [series.name for series in prepared.series] == ["dense", "sparse"]
    assert [series.y for series in one.series] == [(2.0,)] * 3


def test_a_study_without_a_finished_test_draws_nothing() -> None:
    saved = read_saved(RESULTS / "positional/smollm2-135m-instruct")
    tables = saved.records.tables
    empty = {name: t.slice(0, 0) for name, t in tables.tables.items()}
    bare = Records(replace(tables, tables=empty), {})
    assert list(saved.study.figures(saved.settings, bare)) == []


def test_the_examples_of_the_calculus_are_those_of_the_core() -> None:
    import torch

    import finite_calculus as fc

    share, rise, fall = explained.SHARE, explained.RISE, explained.FALL
    scores = torch.tensor([share, 1 - share], dtype=torch.float64).log()
    readout = fc.freeze(scores, torch.tensor([[1.0], [0.0]]).double())
    close = 32 * EPS  # numbers of size one, some ten roundings on either side
    for strength in (0.1, 0.5, 1.0):
        edit = torch.tensor([strength * rise, 0.0], dtype=torch.float64)
        values = torch.tensor([[-strength * fall], [0.0]], dtype=torch.float64)
        parts = fc.decompose(readout, edit, values)
        exact = [float(each) for each in (parts.key, parts.value, parts.interaction, parts.total)]
        assert explained.joint_terms(strength) == pytest.approx(exact, abs=close)
        bound = fc.certify(readout, edit, torch.zeros(2, 1).double(), torch.ones(1).double()).bound
        error, drawn = explained.first_order_error(strength * rise)
        assert error <= drawn
        assert drawn == pytest.approx(float(bound), abs=close)
    gone = fc.deletion_response(readout, torch.tensor([[True, False]]))
    # y = share, v = 1: over the distance v − y.
    assert explained.deletion(share) == pytest.approx(float(gone.abs()) / (1 - share), abs=close)


def test_words_below_an_axis_do_not_run_into_each_other() -> None:
    words = tuple(f"a long name {n}" for n in range(15))
    panel = Panel("bars", "", "y", (Series("one", words, (1.0,) * 15),))
    assert "rotate(-90)" in draw(Figure("many", "many", "", (panel,)))


def test_a_short_logarithmic_axis_has_plain_numbers() -> None:
    panel = Panel("lines", "x", "y", (Series("one", (0.0, 1.0), (0.1, 0.9)),), y_scale="log")
    svg = draw(Figure("short", "short", "", (panel,)))
    assert ">0.2<" in svg
    assert ">0.5<" in svg


def test_the_smallest_bar_of_a_logarithmic_panel_is_one() -> None:
    panel = Panel("bars", "", "y", (Series("one", ("a", "b"), (1.1e-5, 1e-3)),), y_scale="log")
    rectangles = re.findall(r'<path d="M ([^"]+) \nz', draw(Figure("bars", "bars", "", (panel,))))
    _, axes, smaller, larger = (
        [float(point.split()[1]) for point in path.split("L")] for path in rectangles
    )
    # Bars begin at the foot of the axes, 1e-6, and are decades high: log10(11) and 3.
    smallest, largest = (max(axes) - min(bar) for bar in (smaller, larger))
    assert smallest / largest == pytest.approx(math.log10(11) / 3, rel=1e-3)


@pytest.mark.parametrize(
    ("names", "letters", "columns"),
    [
        (("a",) * 6, 66, 6),
        (("a",) * 6, 65, 3),
        (("a", "b", "a name as long as this one"), 64, 3),
        (("a name as long as this one",) * 3, 64, 1),
    ],
)
def test_a_legend_takes_the_columns_that_fit(names, letters: int, columns: int) -> None:
    assert _legend_columns(names, letters) == columns


def test_more_settings_than_kinds_of_points_are_drawn_by_task() -> None:
    (figure,) = (
        each
        for each in report_figures(
            read_saved(RESULTS / "joint-kv/smollm2-135m-instruct-every-layer")
        )
        if each.name == "interaction"
    )
    assert [series.name for series in figure.panels[0].series] == ["retrieval, every layer"]


def test_quartiles_of_the_audit_end_where_its_caption_says() -> None:
    quantiles = {"0.25": 1.5, "0.5": 2.0, "0.75": 1e18}
    records = [{"dtype": dtype, "slack_quantiles": quantiles} for dtype in ("float64", "float32")]
    figure = audit_figure(records)
    (series,) = figure.panels[0].series
    assert (series.low, series.y, series.high) == ((1.5,), (2.0,), (10_000,))
    assert "10,000 goes on" in figure.caption
