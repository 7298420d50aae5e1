"""Three directions at a query: the trained model's Jacobian, its exact effective step, the learner's g_D.

A head's readout is y = μ + uᵀΔM with ΔM the unit gradient step of eq:gradient, in the coordinates of the
query token. Along the prediction the heads' steps add up to one direction of input space. It is a secant
and depends on the score-shift gauge; the Jacobian contains what ΔM itself does as the query moves. Linear
attention has no softmax: its matrix Σ a_j v_j/N is the same step with c_j = 1/N and values not centred.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.effective import (
    EffectiveWeights,
    affine_features,
    augment,
    effective_weights,
    mean_key_gauge,
)
from finite_calculus.studies.regression.block import (
    HEADS,
    WIDTH,
    Bank,
    Weights,
    bank_of,
    predict,
    rotary_of,
)
from finite_calculus.studies.regression.episodes import INPUTS, SUPPORT, Episodes

GAUGES = ("original", "mean")


@dataclass(frozen=True, eq=False)
class EffectiveStep:
    """The heads' steps along the prediction: a direction of input space, and the prediction through it."""

    direction: Float[Tensor, "episodes queries inputs"]
    prediction: Float[Tensor, "episodes queries"]


def jacobians(
    architecture: str, weights: Weights, episodes: Episodes
) -> Float[Tensor, "episodes queries inputs"]:
    """∇_x f at every query, by automatic differentiation."""
    inputs = episodes.queries[..., :INPUTS].detach().clone().requires_grad_()
    queries = torch.cat([inputs, episodes.queries[..., INPUTS:]], -1)
    total = predict(architecture, weights, episodes.support, queries).sum()
    return torch.autograd.grad(total, inputs)[0]


def effective_step(
    architecture: str, weights: Weights, episodes: Episodes, gauge: str
) -> EffectiveStep:
    """The exact step of every query, both heads together."""
    bank = bank_of(architecture, weights, episodes.support)
    inputs = augment(episodes.queries)
    matrices, means = [], []
    for head in range(HEADS):
        features = head_features(architecture, weights, bank, head)
        if architecture == "linear":
            values = bank.values[:, head]
            matrices.append((torch.matmul(features.mT, values) / SUPPORT).unsqueeze(-3))
            means.append(torch.zeros_like(values[..., :1, :]))
        else:
            step = head_step(inputs, features, bank.values[:, head], gauge)
            matrices.append(step.matrix)
            means.append(step.mean)
    answer = weights.answer.unsqueeze(-1)
    (first, second), (constant, other) = (
        [torch.matmul(map_, column).squeeze(-1) for map_, column in zip(maps, answer, strict=True)]
        for maps in (matrices, means)
    )
    constant, direction = constant + other, (first + second).expand(*inputs.shape)
    prediction = episodes.queries[..., INPUTS] + constant + (inputs * direction).sum(-1)
    return EffectiveStep(direction[..., :INPUTS], prediction)


def head_features(
    architecture: str, weights: Weights, bank: Bank, head: int
) -> Float[Tensor, "episodes support inputs"]:
    """Score features a_j of one head: s_j = uᵀa_j, with a last coordinate for the bias that is not there."""
    rotary = rotary_of(architecture)
    return affine_features(
        rotary, weights.query[head], None, bank.keys[:, head], SUPPORT, scaling=WIDTH**-0.5
    )


def head_step(
    inputs: Float[Tensor, "episodes queries inputs"],
    features: Float[Tensor, "episodes support inputs"],
    values: Float[Tensor, "episodes support width"],
    gauge: str,
) -> EffectiveWeights:
    """The exact effective weights of one softmax head at every query."""
    shape = inputs.shape[:-1]
    features, values = (x.unsqueeze(-3).expand(*shape, *x.shape[-2:]) for x in (features, values))
    everywhere = torch.ones(features.shape[:-1], dtype=torch.bool)
    chosen = mean_key_gauge(features, mask=everywhere) if gauge == "mean" else None
    return effective_weights(inputs, features, values, gauge=chosen)


def cosine(first: Tensor, second: Tensor) -> Tensor:
    """cos of the angle between vectors along the last axis; NaN where one vanishes."""
    norms = torch.linalg.vector_norm(first, dim=-1) * torch.linalg.vector_norm(second, dim=-1)
    return (first * second).sum(-1) / norms
