"""The report as one HTML file: no network, no script from elsewhere, readable when it is opened from disk."""

import base64
import hashlib
from collections.abc import Sequence
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
)
from finite_calculus.report.texts import visible

_ASSETS = Path(__file__).with_name("assets")


def write_report(sources: Sequence[Source], out: Path) -> int:
    """Write the page and say how many bytes it has; an earlier file is replaced in one step."""
    blob = render(sources).encode()
    replace_file(out, blob)
    return len(blob)


def render(sources: Sequence[Source]) -> str:
    """The page as text."""
    script, style = _asset("table.js") + _asset("report.js"), _asset("report.css")
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
        runs=[
            _run(source, place)
            for place, source in enumerate(s for s in sources if isinstance(s, RunSource))
        ],
    )


def _run(source: RunSource, place: int) -> dict[str, Any]:
    """What the page shows of a run."""
    saved = source.saved
    checks, failed = totals(saved.records.rows(CheckRow))
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
        "tables": [_table(table, f"run-{place}-{table.name}") for table in report_tables(saved)],
        "figures": [_figure(figure, f"run-{place}") for figure in report_figures(saved)],
    }


def _audit(source: AuditSource) -> dict[str, Any]:
    return {
        "name": source.name,
        "sha256": source.sha256,
        "table": _table(audit_table(source.records), f"audit-{source.sha256[:8]}"),
        "figure": _figure(audit_figure(source.records), f"audit-{source.sha256[:8]}"),
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
        "rows": [] if long else [[*map(_cell, row)] for row in table.rows],
        "payload": long_tables.payload(table) if long else None,
    }


def _cell(cell: Cell) -> tuple[str, bool]:
    """The text of a cell, and whether it is a number."""
    if cell is None:
        return "–", False
    return (number(cell), True) if isinstance(cell, float) else (str(cell), isinstance(cell, int))


def _figure(figure: Any, owner: str) -> dict[str, str]:
    return {
        "id": f"{owner}-figure-{figure.name}",
        "name": figure.name,
        "title": figure.title,
        "caption": figure.caption,
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
        "status": _status_words,
        "thousands": "{:,}".format,
    }
    return environment.get_template("page.html")


def _status_words(entry: Any) -> str:
    """One word for the filter of the ledger."""
    if entry["failures"]:
        return "failed"
    return "green" if entry["green"] else str(entry["proof"])


def _statuses(ledger: LedgerSource) -> list[str]:
    return sorted({_status_words(entry) for entry in ledger.data["entries"]})


def _asset(name: str) -> str:
    return _ASSETS.joinpath(name).read_text(encoding="utf-8")
