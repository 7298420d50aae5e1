"""Float32 responses against dense ones in float64, and what rounding may put between them.

To first order, summing over heads, edited and unedited bank: a score is off by (width + 4)u·Σ|q||k|·scaling,
a pull ⟨g, v⟩ by (width + 4)u·Σ|g||v|; probabilities follow twice the error of their scores and the sums over
the keys. Evaluations that never form the edited softmax have terms of the same sizes, counted once more.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.studies.runtime.attention import Inputs, contract, prepare_dense

# Candidates whose edited softmax is held at once.
_PORTION = 32


def exact_responses(inputs: Inputs) -> Float[Tensor, "strengths candidates"]:
    """Dense responses in float64."""
    parts = inputs.to(torch.float64).portions(_PORTION)
    return torch.cat([prepare_dense(part)(part.strengths) for part in parts], -1)


def response_bound(inputs: Inputs) -> Float[Tensor, "strengths candidates"]:
    """What float32 may be off by in each response."""
    parts = [_bound(part) for part in inputs.to(torch.float64).portions(_PORTION)]
    return torch.cat(parts, -1)


def _bound(inputs: Inputs) -> Tensor:
    unit = torch.finfo(torch.float32).eps / 2
    keys, width = inputs.keys.shape[1:]
    index = inputs.index.expand(inputs.heads, -1, -1)
    scaled = inputs.query * inputs.scaling

    def both(vectors: Tensor, bank: Tensor, donors: Tensor) -> tuple[Tensor, Tensor]:
        return contract(vectors, bank), contract(vectors, donors.flatten(1, 2)).view(index.shape)

    scores, donor_scores = both(scaled, inputs.keys, inputs.donor_keys)
    sizes = both(scaled.abs(), inputs.keys.abs(), inputs.donor_keys.abs())
    pulls, donor_pulls = both(inputs.gradient.abs(), inputs.values.abs(), inputs.donor_values.abs())
    score_error = (width + 4) * unit * max(float(size.max()) for size in sizes)
    steps = 2 * score_error + (2 * keys + 2 * width + inputs.heads + 32) * unit
    baseline = (torch.softmax(scores, -1) * pulls).sum()
    totals = []
    for strength in inputs.strengths.tolist():
        edited, larger = (old.unsqueeze(1).repeat(1, index.shape[1], 1) for old in (scores, pulls))
        moved = torch.lerp(edited.gather(2, index), donor_scores, strength)
        edited.scatter_(2, index, moved)
        larger.scatter_(2, index, larger.gather(2, index) + strength * donor_pulls)
        totals.append(2 * steps * ((torch.softmax(edited, -1) * larger).sum((0, -1)) + baseline))
    return torch.stack(totals)
