"""The tables of the reconstruction study.

`head` is missing in rows of the combined write, which sums all projected heads. Largest figures and means of
squares are over the continuations and the coordinates; what a figure is held to stands beside it.
"""

from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa

from finite_calculus.harness import Row

Small = Annotated[int, pa.int32()]


@dataclass(frozen=True)
class Reconstruction(Row):
    """One head, or the combined write, in one context: μ + uᵀΔM against softmax attention.

    `prefix` is the readout of the prefix bank alone, `full` the causal one with the continuation's own key
    and value; both in float64, beside the sure bound and beside what one random rounding of every input
    does to the softmax readout. `native` compares the full one with the float32 output of the model, whose
    `probable` bound is exceeded with probability 1e-9 per number where roundings are independent.
    `relation` is the largest error of y_full = (1 − π) y_prefix + π v_self; `self_mass` the mean of π, over
    the heads too in the combined row. `size` is the root mean square of the full output.
    """

    context: Small
    layer: Small
    head: Annotated[int, pa.int32()] | None
    size: float
    self_mass: float
    prefix_mse: float
    prefix_mse_bound: float
    prefix_mse_rounding: float
    full_mse: float
    full_mse_bound: float
    full_mse_rounding: float
    relation: float
    relation_bound: float
    native_mse: float
    native_mse_bound: float
    native_mse_probable: float
    native_largest: float
    native_bound: float
    native_probable: float


@dataclass(frozen=True)
class Frozen(Row):
    """The prefix readout with the effective matrix of the observed continuation in place of each one's own.

    Root mean squares over the other continuations, of vector norms: `frozen` of the error e, `change` of the
    output's own change y − y_a, which is what holding the output would leave, and `size` of y. `corrected` is
    the largest number that is left once the tokenwise correction is added. `worst` is the largest ‖e‖ and
    `worst_bound` what eq:bound allows there; the combined write has no such bound of its own.
    """

    context: Small
    layer: Small
    head: Annotated[int, pa.int32()] | None
    gauge: str
    size: float
    change: float
    frozen: float
    corrected: float
    corrected_bound: float
    worst: float
    worst_bound: float | None
