"""Training of one block on fresh episodes, and the choice of its best state by validation."""

from dataclasses import dataclass

import torch

from finite_calculus.studies.regression.block import Weights, initial_weights, predict
from finite_calculus.studies.regression.episodes import Episodes, draw_episodes, stream
from finite_calculus.studies.regression.settings import RegressionSettings


@dataclass(frozen=True, eq=False)
class Trained:
    """The state with the least validation error, the step at which it was met, and all validations."""

    weights: Weights
    step: int
    curve: tuple[tuple[int, float], ...]


def train(
    settings: RegressionSettings, architecture: str, seed: int, validation: Episodes
) -> Trained:
    """AdamW without decay on one query of each fresh episode; every architecture sees the same ones."""
    weights = initial_weights(stream(settings.seed, "weights", seed))
    episodes = stream(settings.seed, "training", seed)
    leaves = list(weights.tensors().values())
    optimiser = torch.optim.AdamW(leaves, lr=settings.rate, weight_decay=0.0)
    curve: list[tuple[int, float]] = []
    best, least = weights, float("inf")
    for step in range(1, settings.steps + 1):
        drawn = draw_episodes(episodes, settings.batch, queries=1)
        loss = squared_error(architecture, weights, drawn)
        optimiser.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(leaves, settings.clip)
        optimiser.step()
        if step % settings.every == 0:
            with torch.no_grad():
                error = float(squared_error(architecture, weights, validation))
            curve.append((step, error))
            if error < least:
                least = error
                copies = {name: w.detach().clone() for name, w in weights.tensors().items()}
                best = Weights(**copies)
    chosen = min(curve, key=lambda pair: pair[1])[0]
    return Trained(best, chosen, tuple(curve))


def squared_error(architecture: str, weights: Weights, episodes: Episodes) -> torch.Tensor:
    """Mean squared error of the predictions."""
    predicted = predict(architecture, weights, episodes.support, episodes.queries)
    return (predicted - episodes.targets).square().mean()
