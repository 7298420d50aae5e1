"""Synthetic families of prompt sets: corrupted mapping, ordered registers, retrieval, decisive attribute.

The streams share no example by construction: they draw from words, registers or questions of their own.
Decisive attribute serves calibration only. The wording is ours.
"""

from collections.abc import Callable
from typing import Literal, get_args

import numpy as np

from finite_calculus.tasks import synthetic
from finite_calculus.tasks.prompt_sets import STREAMS, PromptSet, Stream, distinct_sets, draw_orders

Family = Literal["corrupt", "ordered", "retrieval", "decisive"]
FAMILIES: tuple[Family, ...] = get_args(Family)
# What each stream may draw from.
_CATEGORIES = {"calibration": synthetic.CATEGORIES[:4], "test": synthetic.CATEGORIES[4:]}
_REGISTERS = {"calibration": range(1, 25), "test": range(25, 100)}
_ENTITIES = {"calibration": range(2), "test": range(2, 8)}
_COLOURS = ("red", "blue", "green", "black", "white", "brown")
_SHAPES = ("circle", "square", "star", "cross", "ring", "cube")
_DECISIVE = "One attribute decides the label of an item. Answer the question with A or B only.\n"
_SWAPPED = {"A": "B", "B": "A"}

# The label that is right under an order of the records, and the record that holds it, where one does.
Answer = Callable[[tuple[int, ...]], tuple[str, int | None]]
Drawing = tuple[str, tuple[str, ...], str, Answer]


def family_sets(family: Family, stream: Stream, count: int, *, seed: int) -> list[PromptSet]:
    """The first sets of a family in one stream."""
    if family == "decisive" and stream == "test":
        raise ValueError(
            "`family` decisive serves calibration alone; got the stream test. Choose another family."
        )

    def draw(index: int, attempt: int) -> PromptSet | None:
        entropy = [seed, STREAMS.index(stream), FAMILIES.index(family), index, attempt]
        rng = np.random.default_rng(np.random.SeedSequence(entropy))
        opening, records, question, answer = _DRAWS[family](stream, rng)
        orders = draw_orders(records, rng)
        if orders is None:
            return None
        answers, targets = zip(*(answer(order) for order in orders), strict=True)
        return PromptSet(
            task=family,
            stream=stream,
            index=index,
            opening=opening,
            records=records,
            orders=orders,
            question=question,
            answers=answers,
            targets=targets,
            source={"seed": entropy},
        )

    return distinct_sets(draw, count, name=f"{family} in the stream {stream}")


def _corrupt(stream: Stream, rng: np.random.Generator) -> Drawing:
    """Two categories, four demonstrations of each, one label flipped; the answer is the true mapping."""
    pair = [str(name) for name in rng.choice(_CATEGORIES[stream], 2, replace=False)]
    right = dict(zip(pair, rng.permutation(["A", "B"]).tolist(), strict=True))
    names = [pair[n % 2] for n in rng.permutation(8)]
    labels = [right[name] for name in names]
    wrong, asked = int(rng.integers(8)), pair[int(rng.integers(2))]
    labels[wrong] = _SWAPPED[labels[wrong]]
    return _synthetic("corrupt", names, labels, asked, lambda order: (right[asked], None))


def _ordered(stream: Stream, rng: np.random.Generator) -> Drawing:
    """Eight assignments to a few registers; the asked one gets both values, so that the order matters."""
    registers = rng.choice(_REGISTERS[stream], int(rng.integers(2, 5)), replace=False)
    names = [f"{registers[n]:02d}" for n in rng.integers(0, len(registers), 8)]
    labels = ["AB"[n] for n in rng.integers(0, 2, 8)]
    both = [
        name
        for name in dict.fromkeys(names)
        if {label for other, label in zip(names, labels, strict=True) if other == name} == {*"AB"}
    ]
    if not both:
        return _ordered(stream, rng)
    asked = both[int(rng.integers(len(both)))]

    def last(order: tuple[int, ...]) -> tuple[str, int]:
        record = [n for n in order if names[n] == asked][-1]
        return labels[record], record

    return _synthetic("ordered", names, labels, asked, last)


def _retrieval(stream: Stream, rng: np.random.Generator) -> Drawing:
    """Eight entities with a label each; the streams ask for different entities."""
    names = [f"{n:02d}" for n in rng.permutation(8) + 1]
    drawn = rng.integers(0, 2, 8)
    if drawn.min() == drawn.max():
        drawn[rng.integers(8)] ^= 1
    labels = ["AB"[n] for n in drawn]
    asked = f"{int(rng.choice(_ENTITIES[stream])) + 1:02d}"
    record = names.index(asked)
    return _synthetic("retrieval", names, labels, asked, lambda order: (labels[record], record))


def _synthetic(
    task: synthetic.Task,
    names: list[str],
    labels: list[str],
    asked: str,
    answer: Answer,
) -> Drawing:
    records = tuple(synthetic.record(task, *row) for row in zip(names, labels, strict=True))
    return synthetic.instruction(task), records, synthetic.question(task, asked), answer


def _decisive(stream: Stream, rng: np.random.Generator) -> Drawing:
    """Items of two colours and two shapes, each combination twice; colour or shape decides the label."""
    colours, shapes = (
        [str(word) for word in rng.choice(words, 2, replace=False)] for words in (_COLOURS, _SHAPES)
    )
    decisive = int(rng.integers(2))
    right = dict(
        zip((colours, shapes)[decisive], rng.permutation(["A", "B"]).tolist(), strict=True)
    )
    items = [(colours[n % 2], shapes[n // 2 % 2]) for n in rng.permutation(8)]
    records = tuple(f"Item {' '.join(item)}: {right[item[decisive]]}\n" for item in items)
    asked = items[int(rng.integers(8))]
    question = f"Question: What is the label of Item {' '.join(asked)}?\nAnswer:"
    return _DECISIVE, records, question, lambda order: (right[asked[decisive]], None)


_DRAWS: dict[Family, Callable[[Stream, np.random.Generator], Drawing]] = {
    "corrupt": _corrupt,
    "ordered": _ordered,
    "retrieval": _retrieval,
    "decisive": _decisive,
}
