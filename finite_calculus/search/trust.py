"""Calibration of a table by execution: corrected predictions, a band for every row, and whom to trust.

Some hundred candidates are executed on the shared path. The anchors correct the predictions (`learn`); the
largest writes are executed besides, since nothing else speaks for them. Of the others a sample is drawn by
stratum, and in each stratum the errors in units of each row's scale give a split-conformal factor. The band
holds for a row drawn at random from a stratum at the stated rate; it is no bound for a row that was chosen
because it looked good. A row is trusted if its sign survives the band of its stratum and that of all strata
together, and if its write is smaller than the stream that it enters.
"""

from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.models import Instrument
from finite_calculus.search.anchors import learn, rows_of_anchors
from finite_calculus.search.beyond import Calibrated
from finite_calculus.search.conformal import conformal_quantile
from finite_calculus.search.downstream import required, with_downstream
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

    Those are the sample; the anchors of the table are executed besides, about one in 40 of its rows.
    `extremes` counts the largest writes beyond the size of their residual stream that are executed too.
    Neither takes part in the calibration, which needs rows drawn at random.
    """
    if count < 1:
        raise ValueError(f"`count` must be at least 1 execution; got {count}.")
    table = table if table.downstream is not None else with_downstream(table)
    known = required(table)
    chosen = rows_of_anchors(known.anchors)
    largest = torch.argsort(known.size, descending=True)[:extremes]
    chosen = torch.cat([chosen, largest[known.size[largest] > 1]]).unique()
    group = strata(table, known.size)
    open_rows = torch.ones(len(table), dtype=torch.bool)
    open_rows[chosen] = False
    sampled = draw(table, group, known.size, count, seed=seed, among=open_rows)
    rows = torch.cat([chosen, sampled.nonzero().squeeze(-1)])
    executed = execute_shared(instrument, table, rows, batch=batch, quiet=quiet)
    correction, deviation = learn(known.anchors, executed - table.predicted)
    corrected = table.predicted + correction
    scale = known.scale + deviation
    error = (executed - corrected).abs() / scale
    band = _bands(error, group, sampled, open_rows, level) * scale
    whole = bool(sampled[open_rows].all())
    doubt = conformal_quantile(error[sampled], level, whole=whole) * scale
    trusted = (known.size <= 1) & (corrected.abs() > torch.maximum(band, doubt))
    done = Calibrated(corrected, executed, group, sampled, scale, band, trusted, level)
    return replace(table, downstream=replace(known, calibrated=done))


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
    error: Tensor, group: Tensor, sampled: Tensor, open_rows: Tensor, level: float
) -> Float[Tensor, " rows"]:
    """The conformal factor of every row's stratum, from its errors in units of their scales."""
    factors = torch.empty_like(error)
    for number in group.unique().tolist():
        inside = group == number
        sample = inside & sampled
        whole = bool((inside & open_rows == sample).all())
        factors[inside] = conformal_quantile(error[sample], level, whole=whole)
    return factors
