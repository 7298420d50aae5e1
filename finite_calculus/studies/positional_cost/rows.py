"""What one variant cost, in seconds of the processor."""

from dataclasses import dataclass

from finite_calculus.harness import Row

# Parts of the cost, in the order of the work; the last is what the rest is compared with.
PARTS = ("prefix", "gradient", "predict", "execute", "check")


@dataclass(frozen=True)
class Cost(Row):
    """Processor seconds of the parts for all `edits` of a variant; `plain` is one pass over the prompt.

    `prefix` runs all tokens but the last, `gradient` the last one with its backward pass; `predict` is the
    exact response of every edit along the gradient, `execute` the shared path, `check` the bounds.
    """

    task: str
    set: int
    variant: int
    tokens: int
    edits: int
    prefix: float
    gradient: float
    predict: float
    execute: float
    check: float
    plain: float
