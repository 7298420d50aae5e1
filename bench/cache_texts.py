"""What the cache's quality is measured on: addresses, a needle in each, and the paper's retrieval prompts.

A text is a context that fills the cache, and tokens read afterwards from what is left of it. Texts are named
and hashed; none of their words is saved.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from finite_calculus.provenance.digests import digest
from finite_calculus.studies.reconstruction.sources import read_articles
from finite_calculus.tasks.articles import Article
from finite_calculus.tasks.synthetic import retrieval_pair

CONTEXT, AFTER = 128, 32
# Tokens of a retrieval prompt that are read afterwards: the end of its chat template.
TEMPLATE = 6
KINDS = ("address", "needle", "retrieval")


@dataclass(frozen=True, eq=False)
class Text:
    """`ids` of which the first `context` fill the cache; the last `scored` tokens count.

    `rivals` are the answers that compete at the last token, the right one first; without them every scored
    token competes with the whole vocabulary.
    """

    kind: str
    name: str
    ids: Tensor
    context: int
    scored: int
    rivals: tuple[int, ...] = ()

    def manifest(self) -> dict[str, Any]:
        """Without words."""
        return {"kind": self.kind, "text": self.name, "ids_sha256": digest(self.ids.tolist())}


def texts(tokenizer: Any, count: int) -> Iterator[Text]:
    """So many of each kind, in turns; addresses are spread over the years."""
    addresses = read_articles("addresses", None).articles
    long = [a for a in addresses if len(a.text) > 12 * (CONTEXT + AFTER)]
    chosen = long[:: len(long) // count][:count]
    for number, address in enumerate(chosen):
        yield _address(tokenizer, address)
        yield _needle(tokenizer, address, number)
        yield _retrieval(tokenizer, number)


def _ids(tokenizer: Any, text: str) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def _address(tokenizer: Any, address: Article) -> Text:
    ids = torch.tensor(_ids(tokenizer, address.text)[: CONTEXT + AFTER])
    return Text("address", address.name, ids, CONTEXT, AFTER - 1)


def _needle(tokenizer: Any, address: Article, number: int) -> Text:
    """A number hidden at another depth of each address; the question is in the context, its answer is not."""
    digits = int(torch.randint(1000, 9999, (), generator=torch.Generator().manual_seed(number)))
    hay = _ids(tokenizer, address.text)
    needle = _ids(tokenizer, f" The secret number of this speech is {digits}.")
    question = _ids(tokenizer, "\nWhat is the secret number of this speech?")
    answer = _ids(tokenizer, f"\nThe secret number of this speech is {digits}")
    start = _ids(tokenizer, "\nThe secret number of this speech is ")
    room = CONTEXT - len(needle) - len(question)
    depth = room * (2 * number % 5 + 1) // 6
    context = [*hay[:depth], *needle, *hay[depth:room], *question]
    ids = torch.tensor([*context, *answer])
    return Text("needle", address.name, ids, CONTEXT, len(answer) - len(start))


def _retrieval(tokenizer: Any, number: int) -> Text:
    """The paper's prompt of one pair's baseline, in the model's chat template, with its answer."""
    prompt, _ = retrieval_pair(number)
    message = [{"role": "user", "content": prompt.text}]
    text = tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)
    ids = _ids(tokenizer, text)
    labels = {label: _ids(tokenizer, label)[0] for label in "AB"}
    right = labels.pop(prompt.answer)
    whole = torch.tensor([*ids, right])
    return Text(
        "retrieval", f"pair {number}", whole, len(ids) - TEMPLATE, 1, (right, *labels.values())
    )
