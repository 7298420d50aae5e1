"""The paper's synthetic tasks as text (App. G and M): what the embedded checkpoint is trained and tested on.

Three tasks with one shape, an instruction, eight records and a question: entity–label retrieval, a
category mapping with one flipped label, and assignments to registers of which the last one counts.
The wording of retrieval is the paper's; the other two are described there and worded here. Nothing
here knows a tokenizer or a model.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np

Task = Literal["retrieval", "corrupt", "ordered"]
TASKS: tuple[Task, ...] = ("retrieval", "corrupt", "ordered")

CATEGORIES = (
    *("red", "blue", "green", "black", "white", "brown", "pink", "grey"),
    *("gold", "silver", "orange", "purple"),
)
NOTE = "Note: This line is irrelevant.\n"
_INSTRUCTIONS = {
    "retrieval": "Read the records.",
    "corrupt": "Learn the label of each category. One label may be wrong.",
    "ordered": "Run the assignments in order.",
}
_ANSWER_WITH = "Answer the question with A or B only."
_NOUNS = {"retrieval": "Entity", "corrupt": "Category", "ordered": "Register"}
_SIGNS = {"retrieval": ": ", "corrupt": ": ", "ordered": " = "}
_ASKED = {"retrieval": "label", "corrupt": "label", "ordered": "last value"}
# The paper's own seed for its retrieval pairs; pair u draws from SeedSequence([PAPER_SEED, u]).
PAPER_SEED = 20260908


@dataclass(frozen=True)
class TaskPrompt:
    """One prompt in its parts; `text` is the user's message, and `answer` the label that is right."""

    task: Task
    records: tuple[str, ...]
    question: str
    answer: str
    notes: int = 0

    @property
    def instruction(self) -> str:
        return instruction(self.task)

    @property
    def text(self) -> str:
        """Instruction, records, notes and question; it ends with "Answer:"."""
        return self.instruction + "".join(self.records) + NOTE * self.notes + self.question


def instruction(task: Task) -> str:
    """The line that opens a prompt."""
    return f"{_INSTRUCTIONS[task]} {_ANSWER_WITH}\n"


def record(task: Task, name: str, label: str) -> str:
    """One record with its newline, as in "Entity 06: B\\n"."""
    return f"{_NOUNS[task]} {name}{_SIGNS[task]}{label}\n"


def question(task: Task, name: str) -> str:
    """The question for one name, up to and including "Answer:"."""
    return f"Question: What is the {_ASKED[task]} of {_NOUNS[task]} {name}?\nAnswer:"


def retrieval_pair(pair: int, *, seed: int = PAPER_SEED) -> tuple[TaskPrompt, TaskPrompt]:
    """Baseline and donor of one of the paper's pairs: rotated identifiers, every label flipped."""
    rng = np.random.default_rng(np.random.SeedSequence([seed, pair]))
    drawn = rng.integers(0, 2, 8)
    if drawn.min() == drawn.max():
        drawn[rng.integers(0, 8)] ^= 1
    rng.shuffle(drawn)
    asked = f"{rng.integers(1, 9):02d}"
    identifiers = np.arange(1, 9)
    donor = np.roll(identifiers, rng.integers(1, 8))
    return _retrieval(identifiers, drawn, asked), _retrieval(donor, 1 - drawn, asked)


def draw(task: Task, rng: np.random.Generator, *, notes: int = 0) -> TaskPrompt:
    """A prompt with eight records and the labels A and B, as the studies ask them."""
    if task == "retrieval":
        names = [f"{n:02d}" for n in rng.permutation(8) + 1]
        labels = _both_labels(rng, 8)
        asked = int(rng.integers(8))
        answer = labels[asked]
    elif task == "corrupt":
        pair = [str(name) for name in rng.choice(CATEGORIES, 2, replace=False)]
        right = _both_labels(rng, 2)
        order = rng.permutation(8)
        names = [pair[place % 2] for place in order]
        labels = [right[place % 2] for place in order]
        wrong = int(rng.integers(8))
        labels[wrong] = "B" if labels[wrong] == "A" else "A"
        asked = int(rng.integers(8))
        answer = right[pair.index(names[asked])]
    else:
        held = rng.choice(99, int(rng.integers(2, 5)), replace=False) + 1
        names = [f"{held[n]:02d}" for n in rng.integers(0, len(held), 8)]
        labels = _both_labels(rng, 8)
        asked = int(rng.integers(8))
        answer = labels[7 - names[::-1].index(names[asked])]
    records = tuple(record(task, *row) for row in zip(names, labels, strict=True))
    return TaskPrompt(task, records, question(task, names[asked]), answer, notes)


def _retrieval(identifiers: np.ndarray, labels: np.ndarray, asked: str) -> TaskPrompt:
    rows = {f"{n:02d}": "AB"[label] for n, label in zip(identifiers, labels, strict=True)}
    records = tuple(record("retrieval", name, label) for name, label in rows.items())
    return TaskPrompt("retrieval", records, question("retrieval", asked), rows[asked])


def _both_labels(rng: np.random.Generator, count: int) -> list[str]:
    """Random labels of which not all are equal, so that no constant answer is right for a prompt."""
    drawn = rng.integers(0, 2, count)
    if drawn.min() == drawn.max():
        drawn[rng.integers(count)] ^= 1
    return ["AB"[n] for n in drawn]
