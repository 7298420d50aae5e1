"""A verification budget: execute until the top is settled, with a probability of having missed something.

For a row that was not executed, the probability that its effect reaches the last place of the top follows
from the tail of the ratios of the calibration sample. Ratios are divided by the median of their stratum
and pooled. The sum over all such rows bounds the probability that any of them reaches it; the likeliest are
executed until it is small. Beyond the sample the tail is a power law fitted to it: an estimate, no bound.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models import Instrument
from finite_calculus.search.conformal import tail_of
from finite_calculus.search.table import ScoreTable, Side, sign_of
from finite_calculus.search.trust import execute_shared


@dataclass(frozen=True, eq=False)
class Settled:
    """All effects known after the executions, nan elsewhere, how many were spent, and what may be missed."""

    effects: Float[Tensor, " rows"]
    spent: int
    missed: float


def settle(
    instrument: Instrument,
    table: ScoreTable,
    count: int,
    *,
    budget: int,
    towards: Side = "either",
    batch: int = 64,
    quiet: bool = True,
) -> Settled:
    """Execute the likeliest rows on the shared path until the top `count` is settled at the table's level.

    Executions of the calibration are known already and cost nothing of the budget.
    """
    effects, spent = table.calibrated.executed.clone(), 0
    chance = chances(table, towards)
    while True:
        likely = chance(_last_place(effects, count, towards))
        likely[~effects.isnan()] = 0
        missed = -float(torch.expm1(-likely.sum()))
        left = min(budget - spent, int((likely > 0).sum()))
        if missed <= 1 - table.calibrated.level or not left:
            return Settled(effects, spent, missed)
        rows = likely.topk(min(max(count, batch - 1), left)).indices
        spent += len(rows)
        done = execute_shared(instrument, table, rows, batch=batch, quiet=quiet)
        effects[rows] = done[rows]


def chances(table: ScoreTable, towards: Side) -> Callable[[float], Float[Tensor, " rows"]]:
    """For a size of effect, every row's estimated probability of reaching it in the asked direction."""
    done, scale, sign = table.calibrated, table.calibrated.scale, sign_of(towards)
    all_ratios = (done.executed - done.corrected).abs() / scale
    unit = torch.ones_like(scale)
    for number in done.group.unique().tolist():
        inside = done.group == number
        sample = all_ratios[inside & done.sampled]
        if len(sample):
            unit[inside] = sample.median().clamp(min=torch.finfo(scale.dtype).tiny)
    tail = tail_of((all_ratios / unit)[done.sampled])
    likely = table.predicted * sign if sign else table.predicted.abs()
    return lambda size: tail.above((size - likely) / (scale * unit))


def _last_place(effects: Tensor, count: int, towards: Side) -> float:
    """The effect that the last of the known top has, in the asked direction; none reaches minus infinity."""
    sign = sign_of(towards)
    known = effects[~effects.isnan()]
    sized = known * sign if sign else known.abs()
    return float(sized.topk(count).values[-1]) if len(sized) >= count else -torch.inf
