"""Calibration of a table by execution: a band for every row, and which rows are to be trusted.

A few hundred candidates are executed on the shared path, drawn by stratum; the largest writes are
executed besides, since nothing else speaks for them. In each stratum the ratios of |executed − predicted|
to the scale of the row give a split-conformal factor. The band holds for a row drawn at random from a
stratum at the stated rate; it is no bound for a row that was chosen because it looked good.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.models import Instrument
from finite_calculus.search.beyond import Calibrated
from finite_calculus.search.conformal import conformal_quantile
from finite_calculus.search.downstream import derivatives_agree, required, with_downstream
from finite_calculus.search.sample import draw, strata
from finite_calculus.search.table import ScoreTable

SAMPLE, EXTREMES, LEVEL = 300, 48, 0.95


def calibrate(
    instrument: Instrument,
    table: ScoreTable,
    *,
    count: int = SAMPLE,
    extremes: int = EXTREMES,
    level: float = LEVEL,
    batch: int = 64,
    seed: int = 0,
    quiet: bool = True,
) -> ScoreTable:
    """The table with a calibrated band and `trusted` for every row, from about `count` executions.

    `extremes` counts the largest writes beyond the size of their residual stream that are executed too;
    they take no part in the calibration, which needs rows drawn at random.
    """
    if count < 1:
        raise ValueError(f"`count` must be at least 1 execution; got {count}.")
    table = table if table.downstream is not None else with_downstream(table)
    size = required(table).size
    group = strata(table, size)
    sampled = draw(table, group, size, count, seed=seed)
    largest = torch.argsort(size, descending=True)[:extremes]
    largest = largest[(size[largest] > 1) & ~sampled[largest]]
    rows = torch.cat([sampled.nonzero().squeeze(-1), largest])
    executed = execute_shared(instrument, table, rows, batch=batch, quiet=quiet)
    band = _bands(table, executed, group, sampled, level)
    trusted = derivatives_agree(table) & (table.predicted.abs() > band)
    done = Calibrated(executed, group, sampled, band, trusted, level)
    return replace(table, downstream=replace(required(table), calibrated=done))


def ratios(table: ScoreTable, executed: Float[Tensor, " rows"]) -> Float[Tensor, " rows"]:
    """|executed − predicted| over the scale of each row, nan where nothing was executed."""
    return (executed - table.predicted).abs() / required(table).scale


def execute_shared(
    instrument: Instrument,
    table: ScoreTable,
    rows: Int[Tensor, " some"],
    *,
    batch: int,
    quiet: bool,
) -> Float[Tensor, " rows"]:
    """Executed effects of some rows on the shared path, nan elsewhere."""
    edits = [table.edit(row) for row in rows.tolist()]
    outcomes = instrument.execute(table.capture, edits, batch=batch, path="shared", quiet=quiet)
    executed = torch.full((len(table),), torch.nan, dtype=torch.float64)
    executed[rows] = outcomes.effects
    return executed


def _bands(
    table: ScoreTable, executed: Tensor, group: Tensor, sampled: Tensor, level: float
) -> Tensor:
    """The band of every row: its stratum's conformal factor times its scale."""
    scale, all_ratios = required(table).scale, ratios(table, executed)
    band = torch.empty_like(scale)
    for number in group.unique().tolist():
        inside = group == number
        sample = inside & sampled
        whole = bool((inside == sample).all())
        factor = conformal_quantile(all_ratios[sample], level, whole=whole)
        band[inside] = factor * scale[inside]
    return band
