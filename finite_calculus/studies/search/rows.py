"""Rows of the search study: every candidate, every place, what each layer and each part cost.

Predictions are rounded to half precision, about three digits and nothing below 6e-8, far under the rounding
of an executed effect: so they compress. Tables are made from these columns and from nothing else.
"""

from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa

from finite_calculus.harness import Row

Tiny = Annotated[int, pa.int16()]
Single = Annotated[float, pa.float32()]


@dataclass(frozen=True)
class Candidate(Row):
    """One edit of one token at one layer: executed effect beside its predictions.

    `kind` numbers the fifteen kinds of edits. `exact` is the exact write along the gradient, `second` adds
    the second order and `corrected` what executed anchors teach, with its `band`. `first` is the first
    order of the edit itself (the positional Jacobian of scores and values), `relp` and `integrated` the
    exact write along other slopes. `known` marks what was executed to calibrate.
    """

    task: str
    prompt: Tiny
    layer: Tiny
    token: Tiny
    kind: Tiny
    executed: Single
    first: Single
    exact: Single
    second: Single
    corrected: Single
    band: Single
    relp: Single
    integrated: Single
    trusted: bool
    known: bool


@dataclass(frozen=True)
class Place(Row):
    """What ranks a token at a layer whatever is done to it."""

    task: str
    prompt: Tiny
    layer: Tiny
    token: Tiny
    attention: Single
    value_norm: Single
    input_gradient: Single


@dataclass(frozen=True)
class Execution(Row):
    """Processor seconds of executing every candidate of a layer."""

    task: str
    prompt: Tiny
    layer: Tiny
    candidates: int
    seconds: float


@dataclass(frozen=True)
class Cost(Row):
    """Processor seconds of what a search does before it executes, part by part.

    `capture` runs prefix and last token with the gradient, `score` evaluates all candidates exactly,
    `curvature` takes the Hessian along directions and `second` all second orders, `calibrate` executes
    anchors and sample. `plain` is one forward pass over the prompt; `floor` is the float32 spacing of
    the logits, a few times, below which an executed effect is rounding.
    """

    task: str
    prompt: Tiny
    tokens: int
    candidates: int
    capture: float
    score: float
    curvature: float
    second: float
    calibrate: float
    known: int
    first: float
    places: float
    relp: float
    integrated: float
    plain: float
    floor: float
