"""Prompts of the study of retrieval heads: one record holds the answer, among known candidates.

Retrieval and ordered registers are those of the positional study, with two labels. Colours are for models
that cannot answer these: eight people with a colour each, and a reply that has begun, as in "The colour of
Anna is", so that one of eight words comes next. The streams have people of their own. The wording is ours.
"""

from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from finite_calculus.provenance.digests import digest
from finite_calculus.tasks.prompt_sets import STREAMS, Stream
from finite_calculus.tasks.set_families import Family, family_sets
from finite_calculus.tasks.set_tokens import SetTokens, tokenise_set
from finite_calculus.tasks.tokens import Span, message_tokens, next_tokens, require_fit, wrapped

_PEOPLE = {
    "calibration": ("Anna", "Paul", "Maria", "Peter", "Laura", "David", "Emma", "Jack"),
    "test": ("Sarah", "Tom", "Julia", "Mark", "Helen", "Simon", "Alice", "Frank"),
}
_COLOURS = ("red", "blue", "green", "black", "white", "brown", "gold", "silver", "orange", "grey")
_OPENING = "Read the records.\n"


@dataclass(frozen=True)
class HeadPrompt:
    """One prompt: its ids, its records' spans, which of them holds the answer, and what may come next.

    `candidates[right]` is the token of the right answer.
    """

    task: str
    stream: Stream
    index: int
    ids: tuple[int, ...]
    spans: tuple[Span, ...]
    target: int
    candidates: tuple[int, ...]
    right: int

    @property
    def unit(self) -> str:
        """The name of the unit, as in "colours-test-000"."""
        return f"{self.task}-{self.stream}-{self.index:03d}"

    def manifest(self) -> dict[str, Any]:
        """Numbers and hashes, no text."""
        return {
            "unit": self.unit,
            "target": self.target,
            "candidates": list(self.candidates),
            "right": self.right,
            "tokens": len(self.ids),
            "ids_sha256": digest(list(self.ids)),
        }


def head_prompts(
    task: str, stream: Stream, count: int, tokenizer: Any, context: int, *, seed: int
) -> list[HeadPrompt]:
    """The first prompts of a task in one stream."""
    if task == "colours":
        return [colour_prompt(stream, n, tokenizer, context, seed=seed) for n in range(count)]
    sets = family_sets(cast("Family", task), stream, count, seed=seed)
    return [prompt_of_set(tokenise_set(each, tokenizer, context)) for each in sets]


def prompt_of_set(tokens: SetTokens) -> HeadPrompt:
    """The original order of a prompt set, whose answer one record must hold."""
    text, prompt = tokens.text, tokens.variants[0]
    target = text.targets[0]
    if target is None:
        raise ValueError(f"Set {text.unit} must have a record that holds the answer; it has none.")
    right = "AB".index(text.answers[0])
    place = (text.task, text.stream, text.index)
    return HeadPrompt(*place, prompt.ids, prompt.spans, target, tokens.labels, right)


def colour_prompt(
    stream: Stream, index: int, tokenizer: Any, context: int, *, seed: int
) -> HeadPrompt:
    """Eight people with a colour each, in random order; one is asked for."""
    entropy = [seed, 5, STREAMS.index(stream), index]
    rng = np.random.default_rng(np.random.SeedSequence(entropy))
    people = [str(name) for name in rng.permutation(_PEOPLE[stream])]
    colours = [str(word) for word in rng.choice(_COLOURS, len(people), replace=False)]
    target = int(rng.integers(len(people)))
    records = [f"The colour of {n} is {c}.\n" for n, c in zip(people, colours, strict=True)]
    question = f"What is the colour of {people[target]}?"
    reply = f"The colour of {people[target]} is"
    where = f"Prompt colours-{stream}-{index:03d}"
    ids, spans = message_tokens(where, _OPENING, records, question, tokenizer, reply=reply)
    require_fit(where, ids, context)
    whole = wrapped(_OPENING + "".join(records) + question, tokenizer) + reply
    candidates = next_tokens(whole, [f" {colour}" for colour in colours], tokenizer)
    return HeadPrompt("colours", stream, index, ids, spans, target, candidates, target)
