"""`finite-calculus audit --from DIR`: the records of an audit that was run in units."""

from pathlib import Path
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from proofs.numeric.checks import CheckResult


def merge_run(place: str, out: Path) -> "list[CheckResult]":
    """Write the records of a finished run of the study `audit`; larger ones that are there stay."""
    from finite_calculus.harness.records import read_saved
    from finite_calculus.harness.store import reading
    from finite_calculus.studies.audit import AuditSettings
    from finite_calculus.studies.audit.rows import Part
    from proofs.numeric import record_files, spread

    with reading(place) as path:
        saved = read_saved(path)
    settings = saved.settings
    if not isinstance(settings, AuditSettings) or not saved.complete:
        state = "is not finished" if isinstance(settings, AuditSettings) else "is of another study"
        raise typer.BadParameter(
            f"--from must be a finished run of `finite-calculus run audit`; {place} {state}."
        )
    parts = (
        (part.function, part.dtype, part.digits, part.record) for part in saved.records.rows(Part)
    )
    made = spread.merged(parts, settings.seed)
    with record_files.writing(out) as records:
        for key, record in made.items():
            if spread.tally_of(records.audits.get(key), record["settings"]) is None:
                records.audits[key] = record
        record_files.write(out, records)
    return [spread.outcome_of(record) for record in made.values()]
