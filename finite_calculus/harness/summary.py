"""Tables of a run, from its records only: Markdown and LaTeX to read, CSV to compute with."""

from pathlib import Path

from finite_calculus.harness.checks import CheckRow, failure_words
from finite_calculus.harness.errors import StoreError
from finite_calculus.harness.figures import Figure
from finite_calculus.harness.records import SavedRun
from finite_calculus.harness.tables import Table, as_csv, as_latex, as_markdown


def report_tables(saved: SavedRun) -> list[Table]:
    """All tables of a study."""
    return list(saved.study.report(saved.settings, saved.records))


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
    """Write the summary into a directory; its own earlier files are replaced, others stay."""
    files = summary_files(saved)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, blob in files.items():
            (target / name).write_bytes(blob)
    except OSError as error:
        raise StoreError(f"`out` must be a directory that can be written: {error}.") from None
    return [target / name for name in files]
