"""The tables of the runtime study: every measurement of every round, audits, and the machine."""

from dataclasses import dataclass
from typing import Annotated

import pyarrow as pa

from finite_calculus.harness import Row

Small = Annotated[int, pa.int32()]
# What is measured: one strength from prepared statistics; one and three with preparation charged.
MODES = ("prepared", "one", "three")
METHODS = ("dense", "ours", "fused")


@dataclass(frozen=True)
class Timing(Row):
    """Seconds of one call in one round: a method in a mode on a case of N tokens and C candidate spans."""

    case: str
    tokens: Small
    candidates: Small
    members: Small
    heads: Small
    groups: Small
    width: Small
    mode: str
    method: str
    round: Small
    seconds: float


@dataclass(frozen=True)
class Audit(Row):
    """A method's float32 responses against dense ones in float64, at all strengths.

    `error` is that of the response that comes closest to its `probable` bound, `bound` the sure one there;
    `size` is the largest response.
    """

    case: str
    method: str
    size: float
    error: float
    probable: float
    bound: float


@dataclass(frozen=True)
class Machine(Row):
    """What a case was timed on."""

    case: str
    processor: str
    cores: Small
    threads: Small
    device: str
    torch: str
