"""What no evaluation of local responses can do without: floors to measure it beside.

The evaluations themselves are those of the study `runtime`.
"""

import torch
from torch import Tensor

from finite_calculus.studies.runtime.attention import Inputs, contract


def read(inputs: Inputs) -> Tensor:
    """Read the cache and the donors once."""
    parts = (inputs.keys, inputs.values, inputs.donor_keys, inputs.donor_values)
    return torch.stack([part.sum() for part in parts])


def contractions(inputs: Inputs) -> list[Tensor]:
    """Scores and pulls of the cache and of the donors: what every way of computing responses needs."""
    scaled = inputs.query * inputs.scaling
    keys, values = inputs.donor_keys.flatten(1, 2), inputs.donor_values.flatten(1, 2)
    pairs = ((scaled, inputs.keys), (inputs.gradient, inputs.values), (scaled, keys))
    return [contract(vectors, bank) for vectors, bank in (*pairs, (inputs.gradient, values))]


def arithmetic(inputs: Inputs) -> Tensor:
    """Sparse responses by their operations alone: no input checked, no case told from another.

    It holds for groups of at most half of the mass and moderate increments, which the drawn inputs have.
    """
    scaled, flat = inputs.query * inputs.scaling, inputs.index.flatten()
    shape = (inputs.heads, *inputs.index.shape)
    scores, pulls = contract(scaled, inputs.keys), contract(inputs.gradient, inputs.values)
    probs = torch.softmax(scores, -1)
    offsets = pulls - pulls.gather(1, scores.argmax(-1, keepdim=True))
    mean = (probs * offsets).sum(-1, keepdim=True)
    picked = probs.index_select(1, flat)
    centred = (picked * (offsets.index_select(1, flat) - mean)).view(shape)
    members = picked.view(shape)
    donor_scores = contract(scaled, inputs.donor_keys.flatten(1, 2))
    donor_pulls = contract(inputs.gradient, inputs.donor_values.flatten(1, 2))
    score_delta = (donor_scores - scores.index_select(1, flat)).view(shape)
    value_delta = (donor_pulls - pulls.index_select(1, flat)).view(shape)
    each = inputs.strengths.view(-1, 1, 1, 1)
    moved = each * score_delta
    edited = members * torch.exp(moved)
    change = (torch.expm1(moved) * centred + edited * (each * value_delta)).sum(-1)
    return (change / (1 - members.sum(-1) + edited.sum(-1))).sum(1)
