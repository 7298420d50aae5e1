"""SST-2 prompt sets: eight training sentences, one label flipped, and a query of the validation split.

No sentence is used twice, whether as query or as demonstration, within a stream or across the two:
calibration takes rows of one permutation from its front and the test from its back. Only row
numbers are kept.
"""

import numpy as np

from finite_calculus.tasks.prompt_sets import PromptSet, Stream, draw_orders
from finite_calculus.tasks.sst2 import (
    DEMONSTRATION,
    LABEL,
    OPENING,
    PER_CLASS,
    QUERY,
    Sst2,
    fitting_rows,
    normal_text,
    question,
    review,
)

_SWAPPED = {"A": "B", "B": "A"}


def sst2_sets(data: Sst2, stream: Stream, count: int, other: int, *, seed: int) -> list[PromptSet]:
    """The first sets of a stream, while the other stream has `other` of them."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, 2]))
    queries, classes = _distinct_rows(data, rng)
    room = min(len(queries), *(len(rows) // PER_CLASS for rows in classes))
    if count + other > room:
        raise ValueError(
            f"`sets` of both streams together must not exceed {room}, so that no sentence of SST-2 is "
            f"used twice; got {count + other}. Ask for fewer."
        )
    places = range(count) if stream == "calibration" else range(room - 1, room - 1 - count, -1)
    return [
        _set(data, stream, index, queries[place], _four_each(classes, place), seed)
        for index, place in enumerate(places)
    ]


def _distinct_rows(data: Sst2, rng: np.random.Generator) -> tuple[list[int], list[list[int]]]:
    """Permuted rows of the validation split, and of each class of training; no sentence twice."""
    texts: set[str] = set()

    def fresh(text: str) -> bool:
        size = len(texts)
        texts.add(normal_text(text))
        return len(texts) > size

    queries = rng.permutation(fitting_rows(data.validation, QUERY)).tolist()
    queries = [row for row in queries if fresh(data.validation.sentences[row])]
    rows = rng.permutation(fitting_rows(data.train, DEMONSTRATION)).tolist()
    rows = [row for row in rows if fresh(data.train.sentences[row])]
    return queries, [[row for row in rows if data.train.labels[row] == n] for n in LABEL]


def _four_each(classes: list[list[int]], place: int) -> list[int]:
    return [row for rows in classes for row in rows[place * PER_CLASS : (place + 1) * PER_CLASS]]


def _set(
    data: Sst2, stream: Stream, index: int, query: int, rows: list[int], seed: int
) -> PromptSet:
    rng = np.random.default_rng(np.random.SeedSequence([seed, 2, query]))
    rng.shuffle(rows)
    wrong = int(rng.integers(len(rows)))
    labels = [LABEL[data.train.labels[row]] for row in rows]
    labels[wrong] = _SWAPPED[labels[wrong]]
    records = tuple(review(data, row, label) for row, label in zip(rows, labels, strict=True))
    orders = draw_orders(records, rng)
    if orders is None:
        raise ValueError(
            f"Row {query} of the validation split: its demonstrations must have four distinct orders; "
            f"they have not. Is the training split made of one sentence?"
        )
    return PromptSet(
        task="sst2",
        stream=stream,
        index=index,
        opening=OPENING,
        records=records,
        orders=orders,
        question=question(data, query),
        answers=(LABEL[data.validation.labels[query]],) * len(orders),
        targets=(None,) * len(orders),
        source={"validation_row": query, "train_rows": rows, "flipped": wrong},
    )
