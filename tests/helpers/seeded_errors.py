"""Errors that are seeded into the core: the paper's own t = log p' − log p, and other plain forms.

The first is put under the bound of our form, as a careless change of the arithmetic would be. All others
are written in tracked operations, so that their own bounds follow their errors and excuse them.
"""

import dataclasses
from collections.abc import Callable

import torch

import finite_calculus as fc
from finite_calculus import response
from finite_calculus.readout import Readout
from finite_calculus.response import Reallocation
from proofs.numeric.cases import Case

_SOUND = response.reallocate


def under_our_bound(readout: Readout, score_delta: torch.Tensor) -> Reallocation:
    """The change of probabilities as the paper evaluates it, with the bound of our form."""
    sound = _SOUND(readout, score_delta)
    before = torch.log_softmax(fc.value_of(readout.scores), -1)
    after = torch.log_softmax(fc.value_of(readout.scores) + fc.value_of(score_delta), -1)
    t = after - before
    change = torch.where(t >= 0, -after.exp() * torch.expm1(-t), before.exp() * torch.expm1(t))
    kept = torch.where(readout.attended, change, 0.0)
    return dataclasses.replace(sound, change=fc.track(kept, fc.error_of(sound.change)))


def under_its_own_bound(readout: Readout, score_delta: torch.Tensor) -> Reallocation:
    """The same difference of logarithms, with the error that it makes followed honestly."""
    sound = _SOUND(readout, score_delta)
    shift = response._shift(readout, score_delta)
    after = (shift.edited - shift.top) - 0.5 * torch.log(shift.weights.sum(-1, keepdim=True))
    half = torch.where(readout.attended, after - 0.5 * readout.log_probs, 0.0)
    change = response._difference(readout.probs, sound.probs, response._doubled(half))
    return dataclasses.replace(sound, half_log_ratio=half, change=change)


def _readout(case: Case) -> Readout:
    return fc.freeze(case["scores"], case["values"], mask=case.get("mask"))


def _phi1(case: Case) -> torch.Tensor:
    x = case["x"]
    return torch.where(x == 0, 1.0, (torch.exp(x) - 1) / torch.where(x == 0, 1.0, x))


def _phi2(case: Case) -> torch.Tensor:
    x = case["x"]
    plain = (torch.expm1(x) - x) / x / x
    return torch.where(x == 0, 0.5, plain)


def _displacement(case: Case) -> torch.Tensor:
    rotary = fc.Rotary(case["frequencies"], case["vector"].shape[-1], case["layout"])
    return fc.rotate(rotary, case["vector"], case["shift"], band=case["band"]) - case["vector"]


def _interaction(case: Case) -> torch.Tensor:
    base, edits = _readout(case), (case["score_delta"], case["value_delta"])
    parts = fc.key_response(base, edits[0]) + fc.value_response(base, edits[1])
    return fc.finite_response(base, *edits) - parts


def _softmax_remainder(case: Case) -> torch.Tensor:
    base, edit = _readout(case), case["score_delta"]
    return fc.key_response(base, edit) - fc.linear_response(base, edit)


def _divergence(case: Case) -> torch.Tensor:
    base = _readout(case)
    return -(base.probs * fc.log_ratio(base, case["score_delta"])).sum(-1)


def _deletion(case: Case) -> torch.Tensor:
    base = _readout(case)
    weights = torch.where(case["removed"], base.probs.unsqueeze(-2), 0.0)
    return -torch.matmul(weights, base.centred)


def _fisher(case: Case) -> torch.Tensor:
    probs, delta = _readout(case).probs, case["original_scores"] - case["scores"]
    return (probs * (1 - probs) * delta * delta).sum(-2)


def _benefit(case: Case) -> torch.Tensor:
    error, moved = case["error"], case["error"].unsqueeze(-2) + case["change"]
    return (error * error).sum(-1, keepdim=True) - (moved * moved).sum(-1)


# By the check that each must fail: a quotient, a difference or a sum in which digits cancel.
PLAIN: dict[str, Callable[[Case], torch.Tensor]] = {
    "phi1": _phi1,
    "phi2": _phi2,
    "displacement": _displacement,
    "interaction": _interaction,
    "softmax_remainder": _softmax_remainder,
    "divergence": _divergence,
    "deletion_jacobian": _deletion,
    "restoration_scores.fisher": _fisher,
    "restoration_benefit": _benefit,
}
