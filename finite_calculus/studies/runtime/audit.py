"""Float32 responses against dense ones in float64, and what rounding may put between them.

To first order, summing over heads, edited and unedited bank: a score is off by (width + 6)u·Σ|q||k|·scaling
and moves the readout by p|⟨g, v − y⟩| of it, a pull ⟨g, v⟩ by (width + 6)u·Σ|g||v|; then come the sums over
the keys. Evaluations that never form the edited softmax have terms of the same sizes: everything counts
twice. The sure bound adds all roundings up, the probable one their squares: it is exceeded with probability
1e-9 by a response whose roundings are independent and centred.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.sum_order import UNIT, Spread
from finite_calculus.studies.runtime.attention import Inputs, contract, prepare_dense

# Candidates whose edited softmax is held at once.
_PORTION = 32


def exact_responses(inputs: Inputs) -> Float[Tensor, "strengths candidates"]:
    """Dense responses in float64."""
    parts = inputs.to(torch.float64).portions(_PORTION)
    return torch.cat([prepare_dense(part)(part.strengths) for part in parts], -1)


def response_spread(inputs: Inputs) -> Spread:
    """What float32 may be off by in each response, (strengths, candidates): surely, and probably."""
    parts = [_spread(part) for part in inputs.to(torch.float64).portions(_PORTION)]
    return Spread(
        *(torch.cat([getattr(p, name) for p in parts], -1) for name in ("sure", "square"))
    )


def _spread(inputs: Inputs) -> Spread:
    index = inputs.index.expand(inputs.heads, -1, -1)
    scaled = inputs.query * inputs.scaling

    def both(vectors: Tensor, bank: Tensor, donors: Tensor) -> tuple[Tensor, Tensor]:
        return contract(vectors, bank), contract(vectors, donors.flatten(1, 2)).view(index.shape)

    parts = (
        both(scaled, inputs.keys, inputs.donor_keys),
        both(inputs.gradient, inputs.values, inputs.donor_values),
        both(scaled.abs(), inputs.keys.abs(), inputs.donor_keys.abs()),
        both(inputs.gradient.abs(), inputs.values.abs(), inputs.donor_values.abs()),
    )
    width = inputs.keys.shape[2]
    baseline = _readout([bank for bank, _ in parts], width).summed(0)
    totals: list[Spread] = []
    for strength in inputs.strengths.tolist():
        edited = []
        for bank, donors in parts:
            rows = bank.unsqueeze(1).repeat(1, index.shape[1], 1)
            moved = torch.lerp(rows.gather(2, index), donors, strength)
            edited.append(rows.scatter_(2, index, moved))
        totals.append((_readout(edited, width).summed(0) + baseline).times(2.0))
    return Spread(*(torch.stack([getattr(t, name) for t in totals]) for name in ("sure", "square")))


def _readout(parts: Sequence[Tensor], width: int) -> Spread:
    """Roundings of Σ p⟨g, v⟩ of every head and bank: by its scores, its pulls, and the sums over the keys.

    `parts` are scores, pulls, and the absolute values of the terms of both.
    """
    scores, pulls, score_sizes, pull_sizes = parts
    probs = torch.softmax(scores, -1)
    output = (probs * pulls).sum(-1, keepdim=True)
    # The scaled query, the product, an interpolation: width + 6 roundings of the terms of a score or pull.
    by_scores = _several(width + 6, probs * score_sizes * (pulls - output).abs())
    by_pulls = _several(width + 6, probs * pull_sizes)
    by_sums = _several(2 * scores.shape[-1] + 32, (probs * pulls.abs()).sum(-1))
    return by_scores.summed(-1) + by_pulls.summed(-1) + by_sums


def _several(count: int, size: Tensor) -> Spread:
    """So many roundings of numbers of at most this size."""
    return Spread(count * UNIT * size, count * (UNIT * size).square())
