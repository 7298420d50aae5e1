"""Linear-regression episodes: a task vector, sixteen support tokens [x, t], queries [x, 0].

The paper's widths (sec:regressionpilot). Streams are told apart by their names, and none depends on the
architecture: models that are compared see the same episodes in the same order.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.regression import regression_step

INPUTS, SUPPORT = 5, 16
STREAMS = ("weights", "training", "validation", "test")


@dataclass(frozen=True, eq=False)
class Episodes:
    """Tokens of the support sets and of the queries, and what the queries' targets are."""

    support: Float[Tensor, "episodes support token"]
    queries: Float[Tensor, "episodes queries token"]
    targets: Float[Tensor, "episodes queries"]

    @property
    def gradient(self) -> Float[Tensor, "episodes inputs"]:
        """g_D of every support set (eq:independentgd)."""
        return regression_step(self.support[..., :INPUTS], self.support[..., INPUTS])

    @property
    def reference(self) -> Float[Tensor, "episodes queries"]:
        """xᵀg_D: what the independent learner predicts at the rate 1."""
        inputs = self.queries[..., :INPUTS]
        return torch.matmul(inputs, self.gradient.unsqueeze(-1)).squeeze(-1)

    def double(self) -> "Episodes":
        """The same numbers in float64."""
        return Episodes(self.support.double(), self.queries.double(), self.targets.double())

    def first(self, count: int) -> "Episodes":
        """The first episodes."""
        return Episodes(self.support[:count], self.queries[:count], self.targets[:count])


def stream(seed: int, name: str, *numbers: int) -> torch.Generator:
    """The random numbers of one stream."""
    entropy = np.random.SeedSequence([seed, STREAMS.index(name), *numbers])
    return torch.Generator().manual_seed(int(entropy.generate_state(1, np.uint64)[0] >> 1))


def draw_episodes(generator: torch.Generator, count: int, queries: int) -> Episodes:
    """w ~ N(0, I/5), inputs ~ N(0, I), t = xᵀw, in float32."""
    task = torch.randn(count, INPUTS, 1, generator=generator) / math.sqrt(INPUTS)
    inputs = torch.randn(count, SUPPORT, INPUTS, generator=generator)
    asked = torch.randn(count, queries, INPUTS, generator=generator)
    support = torch.cat([inputs, torch.matmul(inputs, task)], -1)
    tokens = torch.cat([asked, torch.zeros(count, queries, 1)], -1)
    return Episodes(support, tokens, torch.matmul(asked, task).squeeze(-1))
