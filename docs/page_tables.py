"""Tables about the report and the explorer themselves: how large, how fast."""

import json

from archives import ROOT, heading, line


def report_size() -> list[str]:
    """The report of all archives: its size, and how long it loads."""
    row = _record()["report"]
    return [
        *heading(0, "records", "figures", "tables", "size", "made, processor time",
                 "loaded, processor time", "loaded, by the clock"),
        line(
            row["records"], row["figures"], row["tables"], f"{row['bytes'] / 1e6:.1f} MB",
            f"{row['make_processor_s']:.0f} s", f"{row['load_processor_s']:.2f} s", f"{row['load_s']:.2f} s",
        ),
        "",
        _machine(),
    ]  # fmt: skip


def first_colours() -> list[str]:
    """What follows a capture until its tokens are coloured, step by step."""
    rows = _record()["explorer"]
    columns = (
        "tokens",
        "candidates",
        "scored and packed",
        "packed, sent, read and painted",
        "together",
    )
    lines = heading(0, *columns)
    for row in rows:
        steps = [row["score_processor_s"], row["page_s"]]
        cells = [f"{seconds:.2f} s" for seconds in (*steps, sum(steps))]
        lines.append(line(row["tokens"], f"{row['candidates']:,}", *cells))
    return [*lines, "", _machine()]


def _record() -> dict:
    return json.loads((ROOT / "results" / "pages.json").read_text())


def _machine() -> str:
    record = _record()
    low, high = sorted(record["load_average"])
    return (
        f"{record['model']}, {record['processor']} with {record['cores']} cores and a load of {low:.0f} to "
        f"{high:.0f}, one thread, Chromium {record['browser']}; the best of {record['repeats']}."
    )


TABLES = {"report-size": report_size, "first-colours": first_colours}
