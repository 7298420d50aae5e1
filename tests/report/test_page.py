"""The report is one file that asks for nothing, shows what the records hold and takes texts as data."""

import base64
import functools
import json
import re
import shutil
import zlib
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from finite_calculus.cli import app
from finite_calculus.cli.report import printed_tables
from finite_calculus.harness.errors import StoreError
from finite_calculus.harness.records import read_saved
from finite_calculus.harness.summary import report_tables
from finite_calculus.harness.tables import Table
from finite_calculus.report import drawings, read_sources, write_report
from finite_calculus.report.long_tables import payload
from finite_calculus.report.page import _is_numeric as is_numeric
from finite_calculus.report.sources import NothingToReportError, preflight_command
from finite_calculus.report.texts import visible
from proofs.printed.shown import SHOWN, Shown
from tests.report.conftest import ARCHIVE, PREFLIGHT

RESULTS = ARCHIVE.parents[1]


class Addresses(HTMLParser):
    """Every address that an element of a page points to."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        names = ("src", "href", "xlink:href", "data", "action", "poster", "srcset")
        self.found += [value or "" for name, value in attrs if name in names]


def test_the_page_points_only_into_itself(page: Path) -> None:
    parser = Addresses()
    text = page.read_text()
    parser.feed(text)
    outside = [
        each for each in parser.found if not each.startswith(("#", "data:image/png;base64,"))
    ]
    assert len(parser.found) > 10
    assert outside == []
    assert not re.search(r"url\((?!#|&quot;#)", text)
    assert "default-src 'none'" in text


def test_texts_of_records_are_data(page: Path) -> None:
    text = page.read_text()
    assert "<img src=x" not in text
    assert "&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;⟨U+2028⟩⟨U+202E⟩{{ 7 * 7 }}" in text
    assert "\u2028" not in text
    assert "\u202e" not in text


def test_unseen_characters_are_named() -> None:
    assert visible("a\u202eb\x00c\ud800d\ufeff") == "a⟨U+202E⟩b⟨U+0000⟩c⟨U+D800⟩d⟨U+FEFF⟩"
    assert visible("Σ p·t, 漢字\n\tß") == "Σ p·t, 漢字\n\tß"


def test_every_run_shows_its_fingerprint_and_its_command(page: Path) -> None:
    manifest = json.loads((ARCHIVE / "manifest.json").read_text())
    text = page.read_text()
    assert manifest["fingerprint"] in text
    assert "finite-calculus run joint-kv --model stories15m" in re.sub(r"</?span>", "", text)


def test_a_run_without_a_native_model_says_what_it_was_made_with(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    write_report(read_sources([ARCHIVE.parents[1] / "regression" / "pilot"]), out)
    made = re.search(r"<dt>Made with</dt><dd>(.*?)</dd>", out.read_text())
    assert made is not None
    assert "torch" in made[1]
    assert "transformers" not in made[1]


def test_an_entry_is_green_only_if_the_ledger_says_so(page: Path) -> None:
    text = page.read_text()
    states = dict(re.findall(r'id="entry-main-(\w+)" data-status="([\w ]+)"', text))
    assert states == {
        "first": "green proved", "second": "green proved", "third": "failed proved", "fourth": "open proved",
    }  # fmt: skip
    assert "1 failed" in text
    assert "Proof: a proof without a formula" in text
    assert "Proof: shown" not in text


def test_the_same_records_give_the_same_page(page: Path, tmp_path: Path, ledger: Path) -> None:
    again = tmp_path / "again.html"
    write_report(read_sources([ledger, PREFLIGHT, ARCHIVE]), again, beside=printed_tables)
    assert again.read_bytes() == page.read_bytes()


def test_the_papers_figures_stand_beside_those_of_a_run(page: Path) -> None:
    text = page.read_text()
    own, printed = (text.index(words) for words in ("Margin MAE at full", "tab:jointcoverage"))
    after = text.index("Influential spans and signs")
    assert own < printed < after
    assert re.search(r'<td class="number">0\.107864</td><td class="number">0\.087683</td>', text)
    assert "these are no figures of this run" in text


@functools.cache
def tables_of(study: str) -> list[str]:
    """The tables of a study's first archive."""
    archive = next(path.parent for path in sorted(RESULTS.glob(f"{study}/*/manifest.json")))
    return [table.name for table in report_tables(read_saved(archive))]


@pytest.mark.parametrize("shown", SHOWN, ids=lambda shown: f"{shown.study}, {shown.table}")
def test_a_printed_table_has_its_columns_and_a_table_to_stand_beside(shown: Shown) -> None:
    assert {len(row) for row in shown.rows} == {len(shown.columns)}
    assert shown.table in tables_of(shown.study)


def test_every_preflight_shows_its_precision_and_its_command(page: Path) -> None:
    text = re.sub(r"</?span>", "", page.read_text())
    assert "finite-calculus preflight tiny-qwen2 --only-target --json FILE" in text
    half = {"dtype": "torch.bfloat16", "source": "name"}
    assert preflight_command("embedded", half).startswith(
        "finite-calculus preflight embedded --dtype bfloat16"
    )
    assert preflight_command("somewhere", {"source": "folder"}).split()[2] == "DIR"


def test_a_column_is_of_numbers_if_every_cell_that_is_there_is_one() -> None:
    assert is_numeric([1, None, 2.5])
    assert is_numeric(["1,166,880", "50.9%", "-0.034", "2.98e-4", "99.6 %"])
    assert not is_numeric([1, "a"])
    assert not is_numeric([True, False])
    assert not is_numeric([None])


def test_a_long_table_keeps_its_numbers_and_its_gaps() -> None:
    rows = tuple((n, None if n == 3 else n / 7, f"word {n % 5}<") for n in range(200))
    text = payload(Table("t", "T", ("n", "x", "w"), rows))
    assert "<" not in text
    columns = {column["name"]: column for column in json.loads(text)["columns"]}
    assert [column["kind"] for column in columns.values()] == ["int", "float", "word"]
    numbers = unpack(columns["x"]["data"], np.dtype("<f8"), 200)
    assert np.isnan(numbers[3])
    assert all(numbers[n] == n / 7 for n in range(200) if n != 3)
    words = unpack(columns["w"]["data"], np.dtype("<u4"), 200)
    assert [columns["w"]["words"][place] for place in words[:6]] == [
        *(f"word {n}<" for n in (0, 1, 2, 3, 4, 0))
    ]


def unpack(text: str, dtype: np.dtype, count: int) -> np.ndarray:
    """A column as the page's script reads it."""
    planes = np.frombuffer(zlib.decompress(base64.b64decode(text)), np.uint8)
    return np.ascontiguousarray(planes.reshape(dtype.itemsize, count).T).view(dtype).ravel()


def test_what_holds_nothing_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NothingToReportError, match=r"must exist; .*nowhere does not"):
        read_sources([tmp_path / "nowhere"])
    (tmp_path / "notes.txt").write_text("nothing")
    with pytest.raises(NothingToReportError, match=r"holds none\. `finite-calculus run`"):
        read_sources([tmp_path])
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(NothingToReportError, match=r"broken\.json must be JSON"):
        read_sources([tmp_path / "broken.json"])


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    copy = shutil.copytree(ARCHIVE, tmp_path / "copy")
    (copy / "records.parquet").write_bytes(b"PAR1")
    with pytest.raises(StoreError, match=r"records\.parquet is missing or damaged"):
        read_sources([copy])


def test_every_figure_can_be_drawn_alone(tmp_path: Path) -> None:
    runner = CliRunner()
    listed = runner.invoke(app, ["figure", "list", str(ARCHIVE)])
    names = listed.output.split()
    assert {"workflow", "rotary-geometry", "errors", "relative", "interaction"} <= set(names)
    out = tmp_path / "errors.svg"
    result = runner.invoke(app, ["figure", "errors", str(ARCHIVE), "--out", str(out)])
    assert result.exit_code == 0, result.output
    svg = out.read_text()
    assert svg.startswith("<svg")
    assert "var(--" not in svg
    assert "var(--" not in drawings([])["workflow"]()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["figure", "nonesuch", str(ARCHIVE)], "must be a figure of the records given"),
        (["report", str(ARCHIVE), "--out", "nowhere/report.html"], "a folder that exists"),
        (["report", "nowhere"], "must exist"),
    ],
)
def test_bad_words_are_refused_before_any_work(words: list[str], message: str) -> None:
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 2
    assert message in " ".join(result.output.replace("│", " ").split())
