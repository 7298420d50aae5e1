"""Tables of a run, from its records only: Markdown and LaTeX to read, CSV to compute with."""

from pathlib import Path

from finite_calculus.studies.records import Records
from finite_calculus.studies.tables import Table, as_csv, as_latex, as_markdown


def report_tables(records: Records) -> list[Table]:
    """All tables of a study."""
    return records.study.report(records.settings, records.tables)


def summary_files(records: Records) -> dict[str, bytes]:
    """Every file of a summary, by name: the same bytes from the same records."""
    tables = report_tables(records)
    shown = [table for table in tables if not table.only_csv]
    head = f"{records.study.name} on {records.settings.model}, run {records.fingerprint[:12]}"
    if not records.complete:
        head += " (INCOMPLETE: not every unit is finished)"
    files = {
        "summary.md": f"# {head}\n\n" + "\n".join(as_markdown(table) for table in shown),
        "summary.tex": f"% {head}\n" + "\n".join(as_latex(table) for table in shown),
    }
    files |= {f"{table.name}.csv": as_csv(table) for table in tables}
    return {name: text.encode() for name, text in files.items()}


def write_summary(records: Records, target: Path) -> list[Path]:
    """Write the summary into a directory; its own earlier files are replaced, others stay."""
    target.mkdir(parents=True, exist_ok=True)
    written = []
    for name, blob in summary_files(records).items():
        (target / name).write_bytes(blob)
        written.append(target / name)
    return written
