"""What float64 rounding may put between two evaluations of one readout, to first order.

A softmax of scores with error e is off by 2e relative; scores s + d are off by u(|s| + |d|), and sums over
the keys and the contraction add one unit for each term.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.readout import Readout

_UNIT = torch.finfo(torch.float64).eps / 2


def plain_readout(readout: Readout, scores: Float[Tensor, "*edits keys"]) -> Tensor:
    """y by the definition, for increments of the scores: softmax, then the sum."""
    return torch.matmul(
        torch.softmax(readout.scores + scores, -1).unsqueeze(-2), readout.values
    ).squeeze(-2)


def readout_budget(
    readout: Readout, scores: Float[Tensor, "*edits keys"], terms: int
) -> Float[Tensor, "*edits width"]:
    """Rounding of y at s + d, entry by entry, by two evaluations; `terms` are summed after it."""
    size = float((readout.scores.abs() + scores.abs()).amax())
    steps = 4 * size + 3 * readout.keys + terms + 16
    weights = torch.softmax(readout.scores + scores, -1).unsqueeze(-2)
    return 2 * steps * _UNIT * torch.matmul(weights, readout.values.abs()).squeeze(-2)
