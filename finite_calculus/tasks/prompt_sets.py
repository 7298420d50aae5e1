"""Prompt sets of the positional study: one question under four orders of its demonstrations and a gap.

The paper's Appendix G gives the design: eight demonstrations, four orders, a fifth variant with sixteen
repetitions of an irrelevant note before the query, calibration and test as separate deterministic streams.
The wording, the draws and the way in which the streams are kept apart are ours.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from finite_calculus.tasks.synthetic import NOTE

Stream = Literal["calibration", "test"]
STREAMS: tuple[Stream, ...] = get_args(Stream)
PAPER_SEED = 24117
ORDERS, NOTES = 4, 16
# The fifth variant has the original order and the notes.
GAP = ORDERS


@dataclass(frozen=True)
class PromptSet:
    """One set as text: `records` in the original order, and where each variant puts them.

    `orders[v]` lists the records of variant v from first to last; the last variant repeats the original
    order and has the notes. `answers[v]` is the label that is right for variant v, and `targets[v]` the
    record that holds it, where one does. `source` says where the set came from, as numbers.
    """

    task: str
    stream: Stream
    index: int
    opening: str
    records: tuple[str, ...]
    orders: tuple[tuple[int, ...], ...]
    question: str
    answers: tuple[str, ...]
    targets: tuple[int | None, ...]
    source: Mapping[str, Any]

    @property
    def unit(self) -> str:
        """The name of the unit, as in "corrupt-test-000"."""
        return f"{self.task}-{self.stream}-{self.index:03d}"

    @property
    def variants(self) -> range:
        """Four orders and the one with the gap."""
        return range(len(self.orders))

    def ordered_records(self, variant: int) -> tuple[str, ...]:
        """The records as a variant has them."""
        return tuple(self.records[number] for number in self.orders[variant])

    def rest(self, variant: int) -> str:
        """What follows the records: the notes, if the variant has them, and the question."""
        return (NOTE * NOTES if variant == GAP else "") + self.question

    def text(self, variant: int) -> str:
        """The user's message."""
        return self.opening + "".join(self.ordered_records(variant)) + self.rest(variant)


def draw_orders(
    records: tuple[str, ...], rng: np.random.Generator
) -> tuple[tuple[int, ...], ...] | None:
    """The original order, three others that read differently, and the original again for the gap.

    None where the records have too few distinct orders to tell.
    """
    original = tuple(range(len(records)))
    orders, texts = [original], {records}
    for _ in range(100):
        order = tuple(int(n) for n in rng.permutation(len(records)))
        text = tuple(records[n] for n in order)
        if text not in texts:
            orders.append(order)
            texts.add(text)
        if len(orders) == ORDERS:
            return (*orders, original)
    return None


def distinct_sets(
    draw: Callable[[int, int], PromptSet | None], count: int, *, name: str
) -> list[PromptSet]:
    """The first sets of a stream, no two alike; set u is the same however many are asked for.

    `draw(index, attempt)` makes one, or None if it does not qualify; it is called with the next attempt
    until it gives one that is new.
    """
    sets: list[PromptSet] = []
    texts: set[str] = set()
    for index in range(count):
        for attempt in range(1000):
            candidate = draw(index, attempt)
            if candidate is not None and candidate.text(0) not in texts:
                sets.append(candidate)
                texts.add(candidate.text(0))
                break
        else:
            raise ValueError(
                f"`sets` must not exceed the distinct sets of {name}; number {index} could not be "
                f"drawn. Ask for fewer."
            )
    return sets
