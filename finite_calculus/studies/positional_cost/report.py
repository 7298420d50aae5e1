"""Tables of the cost study."""

from collections.abc import Iterator, Sequence

from finite_calculus.harness import Records, Table
from finite_calculus.studies.positional_cost.rows import PARTS, Cost


def report(records: Records) -> Iterator[Table]:
    """Seconds of an edit by part, and what a plain pass takes."""
    rows = records.rows(Cost)
    tasks = list(dict.fromkeys(row.task for row in rows))
    lines = [_line(task, [row for row in rows if row.task == task]) for task in tasks]
    lines.append(_line("all", rows))
    columns = ("task", "variants", "tokens", *(f"{part} ms" for part in PARTS), "total ms",
               "total without checks ms", "plain pass ms", "plain over total", "edits a second")  # fmt: skip
    note = (
        "Milliseconds of the processor for one edit: each part's time over the edits of its variant. The "
        "plain pass runs the whole prompt once, the least that an edit costs without a shared prefix. "
        "Timings do not repeat byte for byte."
    )
    yield Table("cost", "Cost of an executed and predicted edit", columns, tuple(lines), note)


def _line(task: str, rows: Sequence[Cost]) -> tuple[str | int | float, ...]:
    edits = sum(row.edits for row in rows)
    parts = [1000 * sum(getattr(row, part) for row in rows) / edits for part in PARTS]
    plain = 1000 * sum(row.plain for row in rows) / len(rows)
    tokens = sum(row.tokens for row in rows) / len(rows)
    total = sum(parts)
    return (task, len(rows), tokens, *parts, total, total - parts[-1], plain, plain / total,
            1000 / total)  # fmt: skip
