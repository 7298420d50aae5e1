"""The report as one HTML file: no network, no script from elsewhere, readable when it is opened from disk."""

import base64
import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from finite_calculus import __version__
from finite_calculus.harness.checks import CheckRow, totals
from finite_calculus.harness.summary import report_figures, report_tables
from finite_calculus.harness.tables import Cell, Table, number
from finite_calculus.provenance.files import replace_file
from finite_calculus.report import long_tables
from finite_calculus.report.audit_tables import audit_figure, audit_table
from finite_calculus.report.drawing import draw
from finite_calculus.report.explained import EXPLAINED, workflow
from finite_calculus.report.sources import (
    AuditSource,
    LedgerSource,
    PreflightSource,
    RunSource,
    Source,
    preflight_command,
)
from finite_calculus.report.texts import visible

_ASSETS = Path(__file__).with_name("assets")
# Also as printed elsewhere: with a thousands separator, in percent.
_NUMBER = re.compile(r"[-−]?\d[\d,]*(\.\d+)?(e[-+]?\d+)?\s?%?")
# Tables of somebody else's figures for a study, each by the name of the table that it stands beside.
Beside = Callable[[str], Mapping[str, Table]]


def write_report(sources: Sequence[Source], out: Path, *, beside: Beside = lambda study: {}) -> int:
    """Write the page and say how many bytes it has; an earlier file is replaced in one step."""
    blob = render(sources, beside=beside).encode()
    replace_file(out, blob)
    return len(blob)


def render(sources: Sequence[Source], *, beside: Beside = lambda study: {}) -> str:
    """The page as text."""
    script, style = _asset("table.js") + _asset("report.js"), _asset("report.css")
    runs = [
        _run(source, place, beside)
        for place, source in enumerate(s for s in sources if isinstance(s, RunSource))
    ]
    return _template().render(
        statuses=_statuses,
        version=__version__,
        script=script,
        style=style,
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        workflow=workflow(),
        explained=[_figure(figure, "explained") for figure in EXPLAINED],
        ledgers=[source for source in sources if isinstance(source, LedgerSource)],
        preflights=[source for source in sources if isinstance(source, PreflightSource)],
        audits=[_audit(source) for source in sources if isinstance(source, AuditSource)],
        runs=runs,
        studies=[(study, list(own)) for study, own in groupby(runs, key=lambda run: run["study"])],
    )


def _run(source: RunSource, place: int, beside: Beside) -> dict[str, Any]:
    """What the page shows of a run."""
    saved = source.saved
    checks, failed = totals(saved.records.rows(CheckRow))
    others = beside(saved.study.name)
    tables: list[dict[str, Any]] = []
    for table in report_tables(saved):
        tables.append(_table(table, f"run-{place}-{table.name}"))
        if table.name in others:
            printed = _table(others[table.name], f"run-{place}-{table.name}-beside")
            tables.append(printed | {"borrowed": True})
    return {
        "id": f"run-{place}",
        "name": source.name,
        "title": saved.settings.title,
        "study": saved.study.name,
        "fingerprint": saved.fingerprint,
        "command": source.command,
        "made_with": saved.identity.get("made_with", {}),
        "complete": saved.complete,
        "repeatable": saved.study.repeatable,
        "checks": checks,
        "failed": failed,
        "replay": source.replay,
        "tables": tables,
        "figures": [_figure(figure, f"run-{place}") for figure in report_figures(saved)],
    }


def _audit(source: AuditSource) -> dict[str, Any]:
    return {
        "name": source.name,
        "sha256": source.sha256,
        "table": _table(audit_table(source.records), f"audit-{source.sha256[:8]}"),
        "figure": _figure(audit_figure(source.records), f"audit-{source.sha256[:8]}"),
        "versions": sorted(
            {f"{name} {of}" for record in source.records for name, of in record["versions"].items()}
        ),
        "cases": sum(record["cases"] for record in source.records),
        "violations": sum(record["violations"] for record in source.records),
    }


def _table(table: Table, identifier: str) -> dict[str, Any]:
    long = len(table.rows) > long_tables.MOST_PLAIN
    return {
        "id": identifier,
        "title": table.title,
        "note": table.note,
        "columns": table.columns,
        "count": len(table.rows),
        "numeric": [_is_numeric([row[n] for row in table.rows]) for n in range(len(table.columns))],
        "rows": [] if long else [[*map(_text, row)] for row in table.rows],
        "payload": long_tables.payload(table) if long else None,
        "borrowed": False,
    }


def _text(cell: Cell) -> str:
    if cell is None:
        return "–"
    return number(cell) if isinstance(cell, float) else str(cell)


def _is_numeric(column: Sequence[Cell]) -> bool:
    """Whether every cell that is there is a number, or a text that is one."""
    cells = [cell for cell in column if cell is not None]
    return bool(cells) and all(
        not isinstance(cell, bool)
        and (isinstance(cell, int | float) or bool(_NUMBER.fullmatch(cell)))
        for cell in cells
    )


def _figure(figure: Any, owner: str) -> dict[str, Any]:
    return {
        "id": f"{owner}-figure-{figure.name}",
        "name": figure.name,
        "title": figure.title,
        "caption": figure.caption,
        "panels": len(figure.panels),
        "svg": draw(figure, owner=owner),
    }


def _template() -> Any:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_ASSETS),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
    )
    environment.filters |= {
        "visible": lambda text: visible(str(text)),
        "number": number,
        "trusted": Markup,  # only what this package has made: drawings, mathematics, its own script
        "status": _status_word,
        "preflight": preflight_command,
        "thousands": "{:,}".format,
    }
    return environment.get_template("page.html")


def _status_word(entry: Any) -> str:
    """One word for an entry of the ledger: green only if all that it stands on is, as the ledger says."""
    if entry["failures"]:
        return "failed"
    return "green" if entry["green"] else "open"


def _statuses(ledger: LedgerSource) -> list[str]:
    """What the ledger can be filtered by: the word of an entry, and how it was proved."""
    entries = ledger.data["entries"]
    words = {_status_word(entry) for entry in entries} | {str(entry["proof"]) for entry in entries}
    return sorted(words)


def _asset(name: str) -> str:
    return _ASSETS.joinpath(name).read_text(encoding="utf-8")
