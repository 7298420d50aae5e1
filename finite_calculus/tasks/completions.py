"""Short texts with one right next word: facts, and lines of code. The wording is ours.

Each text holds its answer's rival too, so that a margin between the two says which of them the model has
understood. Nothing here knows a tokenizer or a model.
"""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["fact", "code"]


@dataclass(frozen=True)
class Completion:
    """A text, the word that should come next, and another word of the text that should not."""

    kind: Kind
    text: str
    answer: str
    versus: str


FACTS = (
    Completion(
        "fact",
        "Madrid is the capital of Spain, Lisbon is the capital of Portugal and Vienna is the capital of "
        "Austria. London lies on the river Thames. The capital of France is the city of",
        " Paris",
        " London",
    ),
    Completion(
        "fact",
        "A week has seven days and a year has twelve months. In summer the days are long, in winter they "
        "are short. In the north, the coldest season of the year is",
        " winter",
        " summer",
    ),
    Completion(
        "fact",
        "Bees make honey, cows give milk and hens lay eggs. Sheep are kept for their wool. "
        "Cheese and butter are both made from",
        " milk",
        " eggs",
    ),
    Completion(
        "fact",
        "The sun is a star, and the moon goes around the earth. By day the sky is blue and by night it is "
        "black. On a clear day without any clouds the color of the sky is",
        " blue",
        " black",
    ),
)

CODE = (
    Completion(
        "code",
        "def mean(values):\n    total = 0\n    for value in values:\n        total = total + value\n"
        "    return total / len(",
        "values",
        "value",
    ),
    Completion(
        "code",
        "class Point:\n    def __init__(self, x, y):\n        self.x = x\n        self.y =",
        " y",
        " x",
    ),
    Completion(
        "code",
        "for number in numbers:\n    print(number)\n\nfor word in words:\n    print(",
        "word",
        "number",
    ),
    Completion(
        "code",
        "if a > b:\n    largest = a\nelse:\n    largest = b\n\nif a < b:\n    smallest = a\nelse:\n"
        "    smallest =",
        " b",
        " a",
    ),
)
