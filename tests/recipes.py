"""Errors that are seeded into the core: the paper's own t = log p' − log p, in two ways.

One is put under the bound of our form, as a careless change of the arithmetic would be. The other is
written in tracked operations, so that its own bound follows its error and excuses it.
"""

import dataclasses

import torch

import finite_calculus as fc
from finite_calculus import response
from finite_calculus.readout import Readout, relative_scores
from finite_calculus.response import Reallocation

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
    moved = relative_scores(readout) + response.relative_increments(readout, score_delta)
    top = torch.where(readout.attended, moved, -torch.inf).amax(-1, keepdim=True)
    mass = torch.where(readout.attended, torch.exp(moved - top), 0.0).sum(-1, keepdim=True)
    t = torch.where(readout.attended, moved - top - torch.log(mass) - readout.log_probs, 0.0)
    change = response._difference(readout.probs, sound.probs, t)
    return dataclasses.replace(sound, log_ratio=t, change=change)
