"""What is asked of the logits: a differentiable scalar of those of the last queries.

`Margin` is the objective of the one-query path. Here are those of several queries: the log-probability of an
answer of several tokens, the divergence from the unedited run, and any function of the user's. A positive
effect raises the objective.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.margins import Margin, need_tokenizer, token_id

Logits = Float[Tensor, "*rows queries vocabulary"]


@runtime_checkable
class Objective(Protocol):
    """A scalar of the logits of the last `queries` queries; `baseline` are those of the unedited run."""

    @property
    def queries(self) -> int:
        """How many queries it reads, the last ones."""
        ...

    def of(self, logits: Logits, baseline: Logits) -> Float[Tensor, "*rows"]:
        """Its value, one for each row."""
        ...


@dataclass(frozen=True)
class LastMargin:
    """The margin of the last query."""

    margin: Margin
    queries: int = 1

    def of(self, logits: Logits, baseline: Logits) -> Float[Tensor, "*rows"]:
        """logit(answer) − logit(versus)."""
        return self.margin.of(logits[..., -1, :])


@dataclass(frozen=True)
class LogProbability:
    """log p of an answer of several tokens, each given those before it (teacher-forced)."""

    answer: tuple[int, ...]

    @property
    def queries(self) -> int:
        """One for each token of the answer."""
        return len(self.answer)

    def of(self, logits: Logits, baseline: Logits) -> Float[Tensor, "*rows"]:
        """Σ log softmax(logits)[token]."""
        tokens = torch.tensor(self.answer, device=logits.device).unsqueeze(-1)
        likely = logits.log_softmax(-1)
        return likely.gather(-1, tokens.expand(*likely.shape[:-1], 1)).squeeze(-1).sum(-1)


@dataclass(frozen=True)
class Divergence:
    """KL(unedited ‖ edited) of the next token, added over the last queries.

    It is zero and flat where nothing is edited: the first order predicts nothing, the second all there is.
    """

    queries: int = 1

    def of(self, logits: Logits, baseline: Logits) -> Float[Tensor, "*rows"]:
        """Σ p·(log p − log q) over the vocabulary and the queries."""
        before, after = baseline.detach().log_softmax(-1), logits.log_softmax(-1)
        return (before.exp() * (before - after)).sum((-1, -2))


@dataclass(frozen=True)
class OfLogits:
    """A function of one's own from logits (..., queries, vocabulary) to a scalar for each row."""

    function: Callable[[Tensor], Tensor]
    queries: int = 1

    def of(self, logits: Logits, baseline: Logits) -> Float[Tensor, "*rows"]:
        """What the function says of it."""
        value = self.function(logits)
        if not isinstance(value, Tensor) or value.shape != logits.shape[:-2]:
            shape = tuple(value.shape) if isinstance(value, Tensor) else type(value).__name__
            raise ValueError(
                f"`function` must return one number for each row of logits, shape "
                f"{tuple(logits.shape[:-2])}; got {shape}. Reduce over the last two dimensions."
            )
        return value


def as_objective(objective: Any) -> Objective:
    """An objective, a margin or a plain function as an objective."""
    if isinstance(objective, Margin):
        return LastMargin(objective)
    if isinstance(objective, Objective):
        return objective
    if callable(objective):
        return OfLogits(cast("Callable[[Tensor], Tensor]", objective))
    raise TypeError(
        f"`objective` must be a Margin, LogProbability, Divergence or a function of logits; got "
        f"{type(objective).__name__}."
    )


def log_probability(
    answer: str | Sequence[int], *, vocabulary: int, tokenizer: Any = None
) -> LogProbability:
    """The log-probability of an answer given as text or as token ids."""
    if isinstance(answer, str):
        need_tokenizer("answer", tokenizer)
        answer = tokenizer(answer, add_special_tokens=False)["input_ids"]
    if not answer:
        raise ValueError("`answer` must hold at least one token; got none.")
    return LogProbability(
        tuple(token_id("answer", token, vocabulary=vocabulary) for token in answer)
    )
