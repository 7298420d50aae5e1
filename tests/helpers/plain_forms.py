"""The plain formulas that lose digits, each as one would write it down, from a bank and its edits."""

import torch


def softmax_difference(scores, score_delta, **_):
    return torch.softmax(scores + score_delta, -1) - torch.softmax(scores, -1)


def paper_recipe(scores, score_delta, **_):
    before, after = torch.log_softmax(scores, -1), torch.log_softmax(scores + score_delta, -1)
    t = after - before
    return torch.where(t >= 0, -after.exp() * torch.expm1(-t), before.exp() * torch.expm1(t))


def subtracted_readouts(scores, values, score_delta, **_):
    return torch.softmax(scores + score_delta, -1) @ values - torch.softmax(scores, -1) @ values


def divergence(scores, score_delta, **_):
    probs = torch.softmax(scores, -1)
    return (probs * score_delta.exp()).sum().log() - (probs * score_delta).sum()


def denominator(scores, score_delta, **_):
    probs = torch.softmax(scores, -1)
    return torch.log(1 + (probs * torch.expm1(score_delta)).sum())


def overflowing_denominator(scores, score_delta, **_):
    return torch.log((torch.softmax(scores, -1) * score_delta.exp()).sum())


def deletion(scores, values, removed, **_):
    probs = torch.softmax(scores, -1)
    mask = torch.tensor(removed[0])
    mass, weighed = probs[mask].sum(), probs[mask] @ values[mask]
    return (mass * (probs @ values) - weighed) / (1 - mass)


def single_repair(scores, values, score_delta, value_delta, **_):
    probs, growth = torch.softmax(scores, -1)[:, None], torch.expm1(score_delta)[:, None]
    inside = growth * (values - probs.T @ values) + (1 + growth) * value_delta
    return probs / (1 + probs * growth) * inside


def band_interaction(scores, values, score_delta, second_delta, **_):
    def readout(*edits):
        return torch.softmax(scores + sum(edits), -1) @ values

    joint = readout(score_delta, second_delta) - readout(score_delta)
    return joint - readout(second_delta) + readout()


def grown_weights(scores, values, score_delta, **_):
    probs = torch.softmax(scores, -1)
    edited = probs * torch.exp(score_delta)
    return (edited / edited.sum()) @ values - probs @ values
