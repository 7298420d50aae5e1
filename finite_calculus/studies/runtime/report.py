"""Tables of the runtime study: medians and quartiles over the rounds, in milliseconds."""

from collections.abc import Iterator, Sequence

import numpy as np

from finite_calculus.harness import Records, Table
from finite_calculus.studies.runtime.rows import METHODS, MODES, Audit, Machine, Timing

# The modes in words.
WORDS = {"prepared": "prepared, one strength", "one": "one strength", "three": "three strengths"}


def report(records: Records) -> Iterator[Table]:
    """All tables of the study."""
    rows = records.rows(Timing)
    yield _medians(rows)
    yield _quartiles(rows)
    yield _audit(records.rows(Audit))
    yield _machines(records.rows(Machine))


def _medians(rows: Sequence[Timing]) -> Table:
    lines = []
    for case in dict.fromkeys(row.case for row in rows):
        own = [row for row in rows if row.case == case]
        times = {
            (mode, method): quartiles[1]
            for mode in MODES
            for method in METHODS
            if (quartiles := spread(own, mode, method))
        }
        ratios = [times[mode, "dense"] / times[mode, "ours"] for mode in MODES]
        charged = [times[mode, method] for mode in MODES[1:] for method in METHODS]
        prepared = [times["prepared", method] for method in METHODS[:2]]
        first = own[0]
        lines.append((case, first.tokens, first.candidates, *prepared, *charged, *ratios))
    columns = (
        *("case", "N", "C", "dense, prepared", "ours, prepared", "dense, R=1", "ours, R=1"),
        *("fused, R=1", "dense, R=3", "ours, R=3", "fused, R=3"),
        *("dense/ours, prepared", "dense/ours, R=1", "dense/ours, R=3"),
    )
    note = (
        "Milliseconds, medians of the rounds. Prepared: one strength from prepared statistics. R: "
        "preparation and evaluation at one or three strengths. Ours takes the form that the evaluator itself "
        "chooses; fused attention copies the cache for every candidate and has nothing to prepare. Ratios "
        "above one: ours is faster. Timings do not repeat byte for byte."
    )
    return Table("runtime", "Local evaluation time", columns, tuple(lines), note)


def spread(rows: Sequence[Timing], mode: str, method: str) -> tuple[float, float, float] | None:
    """Quartiles of the rounds in milliseconds; None where nothing was measured."""
    times = [1000 * row.seconds for row in rows if (row.mode, row.method) == (mode, method)]
    if not times:
        return None
    low, middle, high = np.quantile(times, (0.25, 0.5, 0.75))
    return float(low), float(middle), float(high)


def _quartiles(rows: Sequence[Timing]) -> Table:
    lines = [
        (case, WORDS[mode], method, *quartiles)
        for case in dict.fromkeys(row.case for row in rows)
        for mode in MODES
        for method in METHODS
        if (quartiles := spread([row for row in rows if row.case == case], mode, method))
    ]
    columns = ("case", "what", "method", "25 % ms", "median ms", "75 % ms")
    return Table("quartiles", "Quartiles over the rounds", columns, tuple(lines))


def _audit(rows: Sequence[Audit]) -> Table:
    lines = [(row.case, row.method, row.size, row.error, row.probable, row.bound) for row in rows]
    note = (
        "Float32 responses against dense ones in float64: the one that comes closest to its bounds."
    )
    columns = ("case", "method", "largest response", "error", "probable bound", "sure bound")
    return Table("audit", "Audit of what was timed", columns, tuple(lines), note)


def _machines(rows: Sequence[Machine]) -> Table:
    listed = dict.fromkeys((r.processor, r.cores, r.threads, r.device, r.torch) for r in rows)
    columns = ("processor", "cores", "threads", "device", "torch")
    return Table("machine", "Where it was timed", columns, tuple(listed))
