"""Tables of a run, from its records only: Markdown and LaTeX to read, CSV to compute with."""

import os
import re
from pathlib import Path

from finite_calculus.harness.checks import CheckRow, failure_words
from finite_calculus.harness.errors import StoreError
from finite_calculus.harness.figures import Figure
from finite_calculus.harness.records import SavedRun
from finite_calculus.harness.tables import Table, as_csv, as_latex, as_markdown
from finite_calculus.provenance.files import read_plain, replace_file

SUMMARY = "summary.md"
_HEADING = re.compile(r"# .*, run [0-9a-f]{12}")


def report_tables(saved: SavedRun) -> list[Table]:
    """All tables of a study."""
    try:
        return list(saved.study.report(saved.settings, saved.records))
    except Exception as error:  # of a study, about records that may be anything
        raise StoreError(
            f"The records are none that {saved.study.name} can report on: {error!r}."
        ) from error


def report_figures(saved: SavedRun) -> list[Figure]:
    """All figures of a study."""
    return list(saved.study.figures(saved.settings, saved.records))


def summary_files(saved: SavedRun) -> dict[str, bytes]:
    """Every file of a summary, by name: the same bytes from the same records."""
    tables = report_tables(saved)
    shown = [table for table in tables if not table.only_csv]
    head = f"{saved.settings.title}, run {saved.fingerprint[:12]}"
    if not saved.study.repeatable:
        head += " (timings: another run gives other numbers)"
    if saved.part:
        head += f" (A PART: {saved.part})"
    elif not saved.complete:
        head += " (INCOMPLETE: not every unit is finished)"
    failed = failure_words(saved.records.rows(CheckRow))
    if failed:
        head += f" ({failed})"
    files = {
        "summary.md": f"# {head}\n\n" + "\n".join(as_markdown(table) for table in shown),
        "summary.tex": f"% {head}\n" + "\n".join(as_latex(table) for table in shown),
    }
    files |= {f"{table.name}.csv": as_csv(table) for table in tables}
    return {name: text.encode() for name, text in files.items()}


def write_summary(saved: SavedRun, target: Path) -> list[Path]:
    """Write the summary into a directory; files of an earlier summary are replaced, a user's own never."""
    files = summary_files(saved)
    try:
        target.mkdir(parents=True, exist_ok=True)
        _require_own(target, list(files))
        for name, blob in files.items():
            replace_file(target / name, blob)
    except OSError as error:
        raise StoreError(f"`out` must be a directory that can be written: {error}.") from None
    return [target / name for name in files]


def _require_own(target: Path, names: list[str]) -> None:
    """Refuse to replace what no summary wrote, and what is no plain file."""
    there = [name for name in names if os.path.lexists(target / name)]
    odd = [name for name in there if (target / name).is_symlink() or not (target / name).is_file()]
    # A summary says in its first line of which run it is.
    head = read_plain(target / SUMMARY) if SUMMARY in there and not odd else b""
    if odd or (there and not _HEADING.match(head.decode(errors="replace"))):
        raise StoreError(
            f"`out` must be a directory in which nothing stands in the way of a summary; {(odd or there)[0]} "
            f"was written by somebody else. It is left as it is: name another directory."
        )
