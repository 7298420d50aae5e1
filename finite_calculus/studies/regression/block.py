"""One residual attention block over a support set: linear, softmax or RoPE–softmax attention.

A query token reads the bank of support tokens through two heads of width 16; the prediction is the last
coordinate of the residual output. Linear attention weighs every value by its score over the number of
keys. Support token j stands at position j and the query after them. Where the paper leaves a choice (no
projection biases, this scale of linear attention, torch's usual initial weights) the choice is ours.
"""

import math
from dataclasses import dataclass, fields

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.rotary import Rotary, rotate
from finite_calculus.studies.regression.episodes import INPUTS, SUPPORT

HEADS, WIDTH, TOKEN = 2, 16, INPUTS + 1
ROTARY = Rotary.from_base(1e4, WIDTH)
STILL = Rotary(torch.zeros(0, dtype=torch.float64), WIDTH)


@dataclass(frozen=True, eq=False)
class Weights:
    """The four projections, in row convention, head by head."""

    query: Float[Tensor, "heads token width"]
    key: Float[Tensor, "heads token width"]
    value: Float[Tensor, "heads token width"]
    output: Float[Tensor, "heads width token"]

    def tensors(self) -> dict[str, Tensor]:
        """The projections by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def double(self) -> "Weights":
        """The same numbers in float64, without a graph."""
        return Weights(**{name: w.detach().double() for name, w in self.tensors().items()})

    @property
    def answer(self) -> Float[Tensor, "heads width"]:
        """What a head's output adds to the prediction, by coordinate."""
        return self.output[..., INPUTS]


@dataclass(frozen=True, eq=False)
class Bank:
    """What the queries read of a support set: keys, rotated where the architecture says so, and values."""

    keys: Float[Tensor, "episodes heads support width"]
    values: Float[Tensor, "episodes heads support width"]


def initial_weights(generator: torch.Generator) -> Weights:
    """Uniform in ±1/√inputs, as `torch.nn.Linear` draws them; leaves that take gradients."""

    def draw(inputs: int, *shape: int) -> Tensor:
        uniform = 2 * torch.rand(*shape, generator=generator) - 1
        return (uniform / math.sqrt(inputs)).requires_grad_()

    query, key, value = (draw(TOKEN, HEADS, TOKEN, WIDTH) for _ in range(3))
    return Weights(query, key, value, draw(HEADS * WIDTH, HEADS, WIDTH, TOKEN))


def rotary_of(architecture: str) -> Rotary:
    """The rotation of keys and queries; that of no planes turns nothing."""
    return ROTARY if architecture == "rope" else STILL


def bank_of(
    architecture: str, weights: Weights, support: Float[Tensor, "episodes support token"]
) -> Bank:
    """Keys and values of support sets."""
    tokens = support.unsqueeze(-3)
    keys, values = torch.matmul(tokens, weights.key), torch.matmul(tokens, weights.value)
    if architecture == "rope":
        positions = torch.arange(SUPPORT, dtype=torch.float64)
        keys = rotate(ROTARY, keys, positions)
    return Bank(keys, values)


def head_outputs(
    architecture: str,
    weights: Weights,
    bank: Bank,
    queries: Float[Tensor, "episodes queries token"],
) -> Float[Tensor, "episodes heads queries width"]:
    """The readout y of every head at every query."""
    asking = torch.matmul(queries.unsqueeze(-3), weights.query)
    if architecture == "rope":
        asking = rotate(ROTARY, asking, float(SUPPORT))
    scores = torch.matmul(asking, bank.keys.mT) * WIDTH**-0.5
    mixture = scores / SUPPORT if architecture == "linear" else torch.softmax(scores, -1)
    return torch.matmul(mixture, bank.values)


def predict(
    architecture: str,
    weights: Weights,
    support: Float[Tensor, "episodes support token"],
    queries: Float[Tensor, "episodes queries token"],
) -> Float[Tensor, "episodes queries"]:
    """The last coordinate of each query's residual output."""
    outputs = head_outputs(architecture, weights, bank_of(architecture, weights, support), queries)
    write = torch.matmul(outputs, weights.answer.unsqueeze(-1)).squeeze(-1).sum(-2)
    return queries[..., INPUTS] + write
