"""Tables of the reconstruction study, from its records alone."""

from collections.abc import Iterator, Sequence

import numpy as np

from finite_calculus.harness import Records, Table
from finite_calculus.harness.checks import CheckRow, totals
from finite_calculus.studies.reconstruction.rows import Frozen, Reconstruction
from finite_calculus.studies.reconstruction.settings import ReconstructionSettings


def report(settings: ReconstructionSettings, records: Records) -> Iterator[Table]:
    """All tables of the study."""
    rows, frozen = records.rows(Reconstruction), records.rows(Frozen)
    yield _summary(rows)
    yield _native(rows)
    yield _frozen(frozen)
    yield _heads(rows, frozen)
    yield _audit(rows, records)


def _groups(rows: Sequence[Reconstruction]) -> list[tuple[int, str, list[Reconstruction]]]:
    """By layer: the heads, then the combined write."""
    layers = sorted({row.layer for row in rows})
    return [
        (layer, name, [r for r in rows if r.layer == layer and (r.head is None) == combined])
        for layer in layers
        for name, combined in (("heads", False), ("combined write", True))
    ]


def _summary(rows: Sequence[Reconstruction]) -> Table:
    lines = []
    for layer, name, own in _groups(rows):
        means = [
            _mean(own, f"{part}_mse{ending}")
            for part in ("prefix", "full")
            for ending in ("", "_rounding", "_bound")
        ]
        largest = max(own, key=lambda row: row.relation)
        lines.append((layer, name, len(own), *means, largest.relation, largest.relation_bound))
    columns = ("layer", "rows of", "rows", "prefix MSE", "of a rounding", "its bound", "causal MSE",
               "of a rounding ", "its bound ", "self-mass relation", "its bound  ")  # fmt: skip
    note = (
        "Float64: μ + uᵀΔM against softmax attention, mean squares over continuations, coordinates and rows; "
        "beside each what one random rounding of every input does to softmax attention, and the sure bound. "
        "The last two: largest error of y_full = (1 − π) y_prefix + π v_self, and the bound in that row."
    )
    return Table("float64", "Reconstruction in float64", columns, tuple(lines), note)


def _native(rows: Sequence[Reconstruction]) -> Table:
    lines = []
    for layer, name, own in _groups(rows):
        worst = max(own, key=lambda row: row.native_largest)
        lines.append(
            (layer, name, _mean(own, "native_mse"), _mean(own, "native_mse_probable"),
             _mean(own, "native_mse_bound"), worst.native_largest, worst.native_probable,
             worst.native_bound, _mean(own, "size"))
        )  # fmt: skip
    columns = ("layer", "rows of", "MSE", "probable bound", "sure bound", "largest difference",
               "probable bound ", "sure bound ", "size")  # fmt: skip
    note = (
        "μ + uᵀΔM in float64 against the model's own float32 output. A probable bound is exceeded with "
        "probability 1e-9 per number where roundings are independent. Size: mean of the root mean squares "
        "of the output."
    )
    return Table("native", "Against the native float32", columns, tuple(lines), note)


def _frozen(rows: Sequence[Frozen]) -> Table:
    lines = []
    for layer in sorted({row.layer for row in rows}):
        for gauge in dict.fromkeys(row.gauge for row in rows):
            for name, combined in (("heads", False), ("combined write", True)):
                own = [
                    r
                    for r in rows
                    if (r.layer, r.gauge) == (layer, gauge) and (r.head is None) == combined
                ]
                ratios = np.array([row.frozen / row.change for row in own])
                sizes = [row.frozen / row.size for row in own]
                corrected = max(own, key=lambda row: row.corrected)
                lines.append(
                    (layer, name, gauge, float(np.median(sizes)), float(np.median(ratios)),
                     float(ratios.min()), float(ratios.max()), 100 * float((ratios > 1).mean()),
                     corrected.corrected, corrected.corrected_bound)
                )  # fmt: skip
    columns = ("layer", "rows of", "gauge", "error / output", "error / change", "least", "largest",
               "worse than holding %", "after correction", "its bound")  # fmt: skip
    note = (
        "The prefix readout with the observed continuation's matrix, at the others: medians over rows of "
        "the root mean square error, relative to the output and to the output's own change from the observed "
        "one. Above 1 of the latter a frozen matrix is worse than a frozen output. After the tokenwise "
        "correction the largest difference from softmax attention, and the bound in that row."
    )
    return Table("frozen", "A frozen anchor matrix", columns, tuple(lines), note)


def _heads(rows: Sequence[Reconstruction], frozen: Sequence[Frozen]) -> Table:
    lines = []
    for layer, head in sorted({(row.layer, row.head) for row in rows if row.head is not None}):
        own = [row for row in rows if (row.layer, row.head) == (layer, head)]
        still = {
            gauge: [
                row for row in frozen if (row.layer, row.head, row.gauge) == (layer, head, gauge)
            ]
            for gauge in ("original", "mean")
        }
        ratios = [float(np.median([r.frozen / r.change for r in part])) for part in still.values()]
        slack = float(
            np.median([r.worst_bound / r.worst for r in still["original"] if r.worst_bound])
        )
        lines.append((layer, head, _mean(own, "self_mass"), *ratios, slack))
    columns = ("layer", "head", "self mass", "error / change, original", "error / change, mean gauge",
               "eq:bound / error")  # fmt: skip
    note = (
        "By head, medians over contexts. The last column: ‖u‖‖ΔM − ΔM_anchor‖ over the error where that is "
        "largest."
    )
    return Table("heads", "A frozen anchor matrix, by head", columns, tuple(lines), note)


def _audit(rows: Sequence[Reconstruction], records: Records) -> Table:
    checks, failed = totals(records.rows(CheckRow))
    listed = (
        ("rows", len(rows)),
        ("rows of a head in a context", sum(row.head is not None for row in rows)),
        ("rows of a combined write", sum(row.head is None for row in rows)),
        ("checks recorded", checks),
        ("checks failed", failed),
    )
    return Table("audit", "Numerical audit", ("figure", "value"), listed)


def _mean(rows: Sequence[Reconstruction], name: str) -> float:
    return float(np.mean([getattr(row, name) for row in rows]))
