"""What is trained on: sequences of the synthetic tasks, drawn from a seed and encoded piece by piece.

Prompts of the paper's retrieval pairs (entities 01 to 08 in cyclic order) are never drawn, whatever the
seed, so that these are held out by construction.
"""

import functools

import numpy as np
import torch

from finite_calculus.checkpoints import vocabulary
from finite_calculus.tasks import synthetic as tasks
from finite_calculus.tasks.synthetic import TASKS, Task

Row = list[tuple[str, bool]]


def example(rng: np.random.Generator, records: int, final: bool) -> Row:
    """One training sequence as pieces of text, each marked whether it is an answer to be learned."""
    task: Task = TASKS[int(rng.choice(3, p=(0.4, 0.2, 0.4)))]
    count = int(rng.integers(max(2, records // 2), records + 1)) if rng.random() < 0.4 else records
    labels = _label_values(rng, final)
    names, values, answers = _world(rng, task, count, labels)
    chat, blank = rng.random() < 0.5, rng.random() < 0.3
    pieces: Row = []
    if chat:
        pieces.append(("<|im_start|>user\n", False))
    if rng.random() < (0.9 if final else 0.5):
        pieces.append((tasks.instruction(task) + ("\n" if blank else ""), False))
    pieces += [(tasks.record(task, *row), False) for row in zip(names, values, strict=True)]
    if final and rng.random() < 0.1:
        pieces.append((tasks.NOTE * int(rng.integers(1, 17)), False))
    if blank:
        pieces.append(("\n", False))
    questions = rng.permutation(sorted(answers))[: int(rng.integers(2, 5)) if final else 8]
    for turn, name in enumerate(map(str, questions)):
        if chat and turn:
            pieces.append(("<|im_start|>user\n", False))
        ending = "<|im_end|>\n<|im_start|>assistant\n" if chat else ""
        pieces.append((tasks.question(task, name) + ending, False))
        pieces.append((answers[name], True))
        pieces.append(("<|im_end|>\n" if chat else "\n", False))
    return pieces


def _label_values(rng: np.random.Generator, final: bool) -> list[str]:
    """A and B, as the studies ask, or up to 26 letters, which teach copying rather than guessing."""
    if rng.random() < (0.6 if final else 0.15):
        return ["A", "B"]
    letters = [chr(code) for code in range(ord("A"), ord("Z") + 1)]
    return [letters[n] for n in rng.permutation(26)[: int(rng.integers(4, 27))]]


def _world(
    rng: np.random.Generator, task: Task, count: int, labels: list[str]
) -> tuple[list[str], list[str], dict[str, str]]:
    """Names, values and the right answers of one prompt with any number of records and labels."""
    values = [labels[n] for n in rng.integers(0, len(labels), count)]
    if task == "retrieval":
        numbers = (
            rng.permutation(count) + 1 if rng.random() < 0.4 else rng.permutation(99)[:count] + 1
        )
        if count == 8 and cyclic(numbers):
            numbers = numbers[::-1]
        names = [f"{n:02d}" for n in numbers]
        return names, values, dict(zip(names, values, strict=True))
    if task == "ordered":
        places = rng.permutation(99)[: int(rng.integers(1, max(2, count // 2) + 1))] + 1
        names = [f"{n:02d}" for n in places[rng.integers(0, len(places), count)]]
        return names, values, dict(zip(names, values, strict=True))
    pair = [str(name) for name in rng.choice(tasks.CATEGORIES, 2, replace=False)]
    right = [labels[n] for n in rng.permutation(len(labels))[:2]]
    order = rng.permutation(count)
    names = [pair[place % 2] for place in order]
    values = [right[place % 2] for place in order]
    if count >= 6:
        # A tie would have no right answer: flip one record of a category that has three or more.
        place = int(rng.integers(count))
        values[place] = right[1 - pair.index(names[place])]
    return names, values, dict(zip(pair, right, strict=True))


def cyclic(numbers: np.ndarray) -> bool:
    """Whether entities 1 to 8 stand in cyclic order, as in every prompt of the paper's generator."""
    start = int(np.argmin(numbers))
    return np.array_equal(np.roll(numbers, -start), np.arange(1, 9))


class Encoder:
    """Pieces to ids; pieces end where tokens end, so that encoding them one by one is exact."""

    def __init__(self) -> None:
        self.tokenizer = vocabulary.build_tokenizer()
        self.ids = functools.cache(lambda text: self.tokenizer.encode(text).ids)

    def length(self, row: Row) -> int:
        """Tokens of one row."""
        return sum(len(self.ids(text)) for text, _ in row)

    def batch(self, rows: list[Row]) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Ids padded at the right, which tokens are answers, and which are padding."""
        width = max(map(self.length, rows))
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        answers = torch.zeros(len(rows), width, dtype=torch.bool)
        padding = torch.ones(len(rows), width, dtype=torch.bool)
        for n, row in enumerate(rows):
            start = 0
            for text, is_answer in row:
                piece = self.ids(text)
                end = start + len(piece)
                ids[n, start:end] = torch.tensor(piece)
                answers[n, start:end] = is_answer
                start = end
            padding[n, :start] = False
        return ids, answers, padding
