"""The functions that are differentiated, and the regimes in which they are."""

from collections.abc import Callable

import torch
from torch import Tensor

import finite_calculus as fc
from tests.helpers.tensors import draw

KEYS, WIDTH, MODEL, HEADS = 4, 2, 3, 2
NAN, INF = float("nan"), float("inf")
# The two excluded keys of the masked regime; their scores and values are garbage.
MASK = torch.tensor([True, False, True, False, True, True])
GROUPS = torch.tensor([[0, 2], [3, 1]])
STARTS = torch.tensor([2, 0])
SPANS = STARTS.unsqueeze(-1) + torch.arange(2)
REMOVED = torch.tensor([[True, False, True, False], [False, False, False, True]])


Regime = tuple[Tensor, Tensor, Tensor, Tensor]


def leaf(tensor: Tensor) -> Tensor:
    return tensor.detach().clone().requires_grad_()


def ordinary() -> Regime:
    """Scores, values, score increments, value increments."""
    return draw(KEYS), draw(KEYS, WIDTH, seed=1), draw(KEYS, seed=2), draw(KEYS, WIDTH, seed=3)


def dominant() -> Regime:
    scores, *rest = ordinary()
    scores[1] = scores.max() + 30
    return scores, *rest


def unmoved() -> Regime:
    scores, values, score_delta, value_delta = ordinary()
    return scores, values, torch.zeros_like(score_delta), torch.zeros_like(value_delta)


def strong() -> Regime:
    """Increments that turn attention over: the branches for large log-ratios."""
    scores, values, _, value_delta = ordinary()
    return scores, values, 6 * draw(KEYS, seed=4), value_delta


REGIMES = {"ordinary": ordinary, "dominant": dominant, "unmoved": unmoved, "strong": strong}
# Each function of (readout, score increments, value increments), one differentiable result.
RESPONSES: dict[str, Callable[[fc.Readout, Tensor, Tensor], Tensor | tuple[Tensor, ...]]] = {
    "output": lambda r, d, e: r.output,
    "centred": lambda r, d, e: r.centred,
    "log_ratio": lambda r, d, e: fc.log_ratio(r, d),
    "log_normaliser": lambda r, d, e: fc.log_normaliser(r, d),
    "probability_change": lambda r, d, e: fc.probability_change(r, d),
    "finite_response of keys": lambda r, d, e: fc.finite_response(r, d),
    "finite_response": fc.finite_response,
    "key_response": lambda r, d, e: fc.key_response(r, d),
    "value_response": lambda r, d, e: fc.value_response(r, e),
    "interaction": fc.interaction,
    "quadratic_interaction": fc.quadratic_interaction,
    "linear_response": lambda r, d, e: fc.linear_response(r, d),
    "softmax_remainder": lambda r, d, e: fc.softmax_remainder(r, d),
    "remainder_weights": lambda r, d, e: fc.remainder_weights(r, d),
    "decompose": lambda r, d, e: tuple(vars(fc.decompose(r, d, e)).values()),
    "divergence": lambda r, d, e: fc.divergence(r, d),
    "positional_jacobian": lambda r, d, e: fc.positional_jacobian(r, d),
    "rotary_remainder": lambda r, d, e: fc.rotary_remainder(r, d),
    "band_interaction": lambda r, d, e: fc.band_interaction(r, d, e.sum(-1)),
    "mixed_second_derivative": lambda r, d, e: fc.mixed_second_derivative(r, d, e.sum(-1)),
}


def spans(readout: fc.Readout) -> fc.PreparedGroups:
    return fc.prepare_spans(fc.read_bank(readout.scores, readout.values), STARTS, 2)


# These need every key attended, or groups of four keys.
GROUPED: dict[str, Callable[[fc.Readout, Tensor, Tensor], Tensor]] = {
    "prepare.response": lambda r, d, e: fc.prepare(r, GROUPS).response(d[GROUPS], e[GROUPS]),
    "prepare.deletion": lambda r, d, e: fc.prepare(r, GROUPS).deletion(),
    "prepare.divergence": lambda r, d, e: fc.prepare(r, GROUPS).divergence(d[GROUPS]),
    "prepare_spans.response": lambda r, d, e: spans(r).response(d[SPANS], e[SPANS]),
    "prepare_spans.deletion": lambda r, d, e: spans(r).deletion(),
    "prepare_spans.divergence": lambda r, d, e: spans(r).divergence(d[SPANS]),
    "prepare_singles.response": lambda r, d, e: fc.prepare_singles(r).response(d, e),
    "prepare_singles.deletion": lambda r, d, e: fc.prepare_singles(r).deletion(),
    "deletion_response": lambda r, d, e: fc.deletion_response(r, REMOVED),
    "deletion_jacobian": lambda r, d, e: fc.deletion_jacobian(r, REMOVED),
    "restoration_response": fc.restoration_response,
}


def planes(layout: str, part: str | None) -> tuple[fc.Rotary, Tensor | None]:
    """Three planes, one of zero frequency, in a head of width six (eight if partial)."""
    frequencies = torch.tensor([1.0, 0.25, 0.0], dtype=torch.float64)
    rotary = fc.Rotary(frequencies, 8 if part == "partial" else 6, layout)
    band = fc.frequency_bands(rotary, (1, 2))[0] if part == "fast" else None
    return rotary, band
