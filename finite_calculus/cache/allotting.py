"""Which key and which value of a prompt gets how many bits, under a memory budget: by exact benefit.

All entries start with the most bits. In rounds, those lose a level whose loss adds least to the squared
relative error of the last queries' writes for each bit that it frees. The cost of each is exact with the
others as they are by then (`entry_benefits`); costs of several do not add up, so the policy's own error is
that of the whole, evaluated once more. Pairs of uniform bits that fit are evaluated beside it and the best is
kept, so that no uniform pair is better for the queries that it was made for. Adding up layers is a rule for
sharing, not a bound on anything downstream.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from finite_calculus.cache.benefits import entry_benefits, reading, relative_errors
from finite_calculus.cache.policy import FULL, PARTS, Policy, Rounding
from finite_calculus.cache.records import transformed
from finite_calculus.cache.window import QueryWindow

# Places in the list of levels, (layers, parts, groups, tokens).
Steps = Int[Tensor, "layers 2 groups tokens"]


@dataclass(frozen=True, eq=False)
class Outcome:
    """A policy, its bits of memory a number, and the exact mean (‖Δo‖/‖o‖)² of each layer's queries."""

    policy: Policy
    bits: float
    errors: dict[int, float]

    @property
    def total(self) -> float:
        """Over the layers, as the search adds them up."""
        return sum(self.errors.values())


@dataclass(frozen=True, eq=False)
class Allotment:
    """What the search found, beside the best `uniform` pair of bits for all keys and for all values."""

    searched: Outcome
    uniform: Outcome
    pair: tuple[int, int]

    @property
    def best(self) -> Outcome:
        """The one with the smaller error."""
        return min(self.searched, self.uniform, key=lambda outcome: outcome.total)


def allot(
    windows: Sequence[QueryWindow],
    budget: float,
    *,
    levels: Sequence[int] = (2, 3, 4, 8),
    rounding: Rounding | None = None,
    rounds: int = 16,
    told: Callable[[int, int], None] | None = None,
) -> Allotment:
    """Bits within `budget`, the mean bits of memory for each number of the tokens before the last.

    `windows` are those of `watch`, whose keys are all the prompt's. The last token's own entry is read as
    stored and not counted. `told` is called with how many rounds are done, of how many.
    """
    ladder = sorted(set(levels))
    unknown = [level for level in ladder if not (2 <= level <= 8 or level == FULL)]
    if not ladder or unknown:
        raise ValueError(f"`levels` must be bits from 2 to 8, or {FULL}; got {list(levels)}.")
    if rounds < 1:
        raise ValueError(f"`rounds` must be at least 1; got {rounds}.")
    prompt = _Prompt(windows, Rounding() if rounding is None else rounding, ladder)
    least = prompt.bits(prompt.everywhere(0, 0))
    if not budget >= least:
        raise ValueError(
            f"`budget` must be at least {least:.4g} bits a number, what {ladder[0]} bits and their scales "
            f"take; got {budget:g}. Give more memory, or lower `levels`."
        )
    steps = prompt.everywhere(len(ladder) - 1, len(ladder) - 1)
    start = prompt.bits(steps)
    for number in range(1, rounds + 1):
        steps = prompt.lowered(steps, start + (budget - start) * number / rounds)
        while number == rounds and prompt.bits(steps) > budget:
            steps = prompt.lowered(steps, budget)
        if told is not None:
            told(number, rounds)
    pairs = [(one, two) for one in range(len(ladder)) for two in range(len(ladder))]
    fitting = [pair for pair in pairs if prompt.bits(prompt.everywhere(*pair)) <= budget]
    outcomes = {pair: prompt.outcome(prompt.everywhere(*pair)) for pair in fitting}
    one, two = min(outcomes, key=lambda pair: outcomes[pair].total)
    return Allotment(prompt.outcome(steps), outcomes[one, two], (ladder[one], ladder[two]))


class _Prompt:
    """The windows of a prompt, and what policies for it cost and do."""

    def __init__(
        self, windows: Sequence[QueryWindow], rounding: Rounding, ladder: list[int]
    ) -> None:
        shapes = {window.keys.shape[:2] for window in windows}
        if len(shapes) != 1:
            raise ValueError(
                f"`windows` must hold layers with the same groups and tokens; got {sorted(shapes)}."
            )
        self.windows, self.rounding, self.ladder = windows, rounding, torch.tensor(ladder)
        ((groups, length),) = shapes
        self.shape = (len(windows), 2, groups, length - 1)
        widths = (windows[0].keys.shape[-1], windows[0].values.shape[-1])
        # Bits of memory of one vector: keys and values, level by level.
        self.costs = torch.tensor([[rounding.cost(bits, w) for bits in ladder] for w in widths])
        self.numbers = len(windows) * groups * (length - 1) * sum(widths)

    def everywhere(self, keys: int, values: int) -> Steps:
        """One level for all keys and one for all values."""
        return torch.tensor([keys, values])[:, None, None].expand(self.shape).clone()

    def bits(self, steps: Steps) -> float:
        """Bits of memory for each number."""
        return float(self._cost(steps).sum()) / self.numbers

    def policy(self, steps: Steps) -> Policy:
        """As data."""
        bits = {w.layer: self.ladder[step] for w, step in zip(self.windows, steps, strict=True)}
        keys, values = ({n: each[part] for n, each in bits.items()} for part in range(len(PARTS)))
        return Policy(self.rounding, keys, values)

    def outcome(self, steps: Steps) -> Outcome:
        """Evaluated as a whole."""
        policy = self.policy(steps)
        errors = {
            window.layer: float(relative_errors(window, _read(window, policy)).square().mean())
            for window in self.windows
        }
        return Outcome(policy, self.bits(steps), errors)

    def lowered(self, steps: Steps, aim: float) -> Steps:
        """Entries lose a level, the cheapest for each freed bit first, until the memory is at most `aim`."""
        below = (steps - 1).clamp(min=0)
        freed = (self._cost(steps) - self._cost(below)).flatten()
        price = torch.where(freed > 0, self._harms(steps, below).flatten() / freed, torch.inf)
        order = price.argsort(stable=True)
        left = self._cost(steps).sum() - freed[order].cumsum(0)
        # One more than those that leave too much, and no entry that is at its lowest level.
        some = min(int((left > aim * self.numbers).sum()) + 1, int((freed > 0).sum()))
        if self.bits(steps) <= aim:
            return steps
        chosen = torch.zeros(steps.numel(), dtype=torch.bool)
        chosen[order[:some]] = True
        return torch.where(chosen.view(steps.shape), below, steps)

    def _cost(self, steps: Steps) -> Tensor:
        return torch.stack([self.costs[part][steps[:, part]] for part in range(len(PARTS))], 1)

    def _harms(self, steps: Steps, below: Steps) -> Tensor:
        """What each entry alone would add to the squared relative error, keys and values each by itself."""
        now, less, harms = self.policy(steps), self.policy(below), []
        for window in self.windows:
            present = _read(window, now)
            keys = Policy(self.rounding, less.keys, now.values)
            values = Policy(self.rounding, now.keys, less.values)
            each = [entry_benefits(window, present, _read(window, p)) for p in (keys, values)]
            harms.append(-torch.stack(each)[..., :-1])
        return torch.stack(harms)


def _read(window: QueryWindow, policy: Policy) -> QueryWindow:
    return reading(window, *transformed(policy, window.keys, window.values, window.layer))
