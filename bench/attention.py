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
