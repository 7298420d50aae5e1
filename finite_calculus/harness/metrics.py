"""How predictions are scored: error, influential spans, sign, correlation (sec:jointexperiment)."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float


def unresolved_note(verdicts: Iterable[bool | None]) -> str:
    """A sentence on effects below the noise floor of a precision; empty if there are none or nobody asked."""
    asked = [verdict for verdict in verdicts if verdict is not None]
    below = asked.count(False)
    if not below:
        return ""
    return (
        f" {below} of {len(asked)} effects are not resolved: rounding alone may have made them. The figures "
        f"count them all."
    )


def mean_error(predicted: Float[np.ndarray, "*n"], executed: Float[np.ndarray, "*n"]) -> float:
    """Mean absolute error."""
    return float(np.abs(predicted - executed).mean())


def top_two_recall(
    predicted: Float[np.ndarray, "prompts spans"], executed: Float[np.ndarray, "prompts spans"]
) -> float:
    """Overlap of the two largest |predicted| with the two largest |executed|, halved, over prompts.

    Ties go to the span that comes first.
    """
    if predicted.shape[-1] < 2:
        raise ValueError(f"Two spans must exist to rank two; got {predicted.shape[-1]}.")
    shared = [
        len(set(_largest_two(p)) & set(_largest_two(e)))
        for p, e in zip(predicted, executed, strict=True)
    ]
    return float(np.mean(shared)) / 2


def sign_accuracy(
    predicted: Float[np.ndarray, "*n"], executed: Float[np.ndarray, "*n"]
) -> float | None:
    """How often the sign is right where the executed change is not zero; None if it always is."""
    moved = executed != 0
    if not moved.any():
        return None
    return float((np.sign(predicted[moved]) == np.sign(executed[moved])).mean())


def correlation(first: Float[np.ndarray, " n"], second: Float[np.ndarray, " n"]) -> float | None:
    """Pearson's correlation; None where one side does not vary."""
    if len(first) < 2 or first.std() == 0 or second.std() == 0:
        return None
    return float(np.corrcoef(first, second)[0, 1])


def _largest_two(values: np.ndarray) -> list[int]:
    return np.argsort(-np.abs(values), kind="stable")[:2].tolist()
