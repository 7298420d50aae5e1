"""The accuracy that the project promises in float64, and the measured error that it is compared with."""

from collections.abc import Callable
from typing import Any

from torch import Tensor

from proofs.references.numbers import distance, prove

# Relative to the largest entry of a result, in every regime.
PROMISE = 1e-13


def relative_error(value: Tensor, reference: Callable[..., Any], **case: Any) -> float:
    """The largest distance from the reference in Arb, relative to the reference's largest entry."""
    arguments = {k: v.tolist() if isinstance(v, Tensor) else v for k, v in case.items()}
    balls, _ = prove(reference, arguments)
    flat = value.flatten().tolist()
    assert len(flat) == len(balls)
    worst = max(distance(x, ball) for x, ball in zip(flat, balls, strict=True))
    return worst / max(abs(float(ball.mid())) for ball in balls)
