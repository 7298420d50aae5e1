"""Prompts of the search study: four kinds, short enough that every candidate can be executed.

Retrieval is the paper's, facts and code are ours, and reviews are SST-2 with one demonstration of each
class. Only numbers and hashes of a prompt are kept.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from finite_calculus.provenance.digests import digest
from finite_calculus.tasks.completions import CODE, FACTS, Completion
from finite_calculus.tasks.sst2 import (
    LABEL,
    OPENING,
    Sst2,
    fitting_rows,
    normal_text,
    question,
    read_sst2,
    review,
)
from finite_calculus.tasks.synthetic import retrieval_pair
from finite_calculus.tasks.tokens import (
    LABELS,
    label_tokens,
    message_tokens,
    next_tokens,
    require_fit,
)

Task = Literal["retrieval", "sst2", "fact", "code"]
TASKS: tuple[Task, ...] = get_args(Task)
# Characters of a review, so that a prompt of three stays near a hundred tokens.
_REVIEW = (20, 60)


@dataclass(frozen=True)
class SearchPrompt:
    """One prompt as token ids, and the two tokens of its margin."""

    task: str
    index: int
    ids: tuple[int, ...]
    answer: int
    versus: int

    @property
    def unit(self) -> str:
        """The name of the unit, as in "fact-002"."""
        return f"{self.task}-{self.index:03d}"

    def manifest(self) -> dict[str, Any]:
        """Numbers and a hash, no text."""
        return {
            "unit": self.unit,
            "tokens": len(self.ids),
            "answer": self.answer,
            "versus": self.versus,
            "ids_sha256": digest(list(self.ids)),
        }


def search_prompts(
    tasks: Sequence[Task],
    count: int,
    tokenizer: Any,
    context: int,
    *,
    seed: int,
    data: Path | None,
) -> tuple[list[SearchPrompt], dict[str, Any]]:
    """The first prompts of each task, the tasks in turn, and what determines them."""
    manifest: dict[str, Any] = {}
    reviews = None
    if "sst2" in tasks:
        reviews = read_sst2(data)
        manifest["sst2"] = reviews.manifest()
    prompts = [
        _prompt(task, index, tokenizer, context, seed, reviews)
        for index in range(count)
        for task in tasks
    ]
    manifest["prompts"] = [prompt.manifest() for prompt in prompts]
    return prompts, manifest


def _prompt(
    task: Task, index: int, tokenizer: Any, context: int, seed: int, reviews: Sst2 | None
) -> SearchPrompt:
    if task in ("fact", "code"):
        prompt = _completion(task, index, FACTS if task == "fact" else CODE, tokenizer)
    elif task == "retrieval":
        text, _ = retrieval_pair(index, seed=seed)
        prompt = _labelled(task, index, text.text, text.answer, tokenizer)
    elif reviews is not None:
        prompt = _labelled(task, index, *_reviews(reviews, index, seed), tokenizer)
    else:
        raise ValueError(f"`tasks` must be among {', '.join(TASKS)}; got {task!r}.")
    require_fit(f"Prompt {prompt.unit}", prompt.ids, context)
    return prompt


def _completion(
    task: Task, index: int, texts: Sequence[Completion], tokenizer: Any
) -> SearchPrompt:
    if index >= len(texts):
        raise ValueError(
            f"`prompts` must not exceed the {len(texts)} of {task}; got {index + 1}. Ask for fewer."
        )
    chosen = texts[index]
    ids = tuple(tokenizer(chosen.text)["input_ids"])
    return SearchPrompt(task, index, ids, *_next(chosen, tokenizer))


def _next(chosen: Completion, tokenizer: Any) -> tuple[int, int]:
    answer, versus = next_tokens(chosen.text, (chosen.answer, chosen.versus), tokenizer)
    return answer, versus


def _labelled(task: Task, index: int, text: str, answer: str, tokenizer: Any) -> SearchPrompt:
    ids, _ = message_tokens(f"Prompt {task}-{index:03d}", text, (), "", tokenizer)
    tokens = dict(zip(LABELS, label_tokens(text, tokenizer), strict=True))
    (other,) = set(LABELS) - {answer}
    return SearchPrompt(task, index, ids, tokens[answer], tokens[other])  # pyright: ignore[reportArgumentType]


def _reviews(data: Sst2, index: int, seed: int) -> tuple[str, str]:
    """One demonstration of each class in random order and a query; queries are drawn without reuse."""
    queries = np.random.default_rng(np.random.SeedSequence([seed, 23])).permutation(
        fitting_rows(data.validation, _REVIEW)
    )
    query = int(queries[index])
    rng = np.random.default_rng(np.random.SeedSequence([seed, 23, index]))
    first = int(rng.integers(2))
    rows: list[int] = []
    for row in rng.permutation(fitting_rows(data.train, _REVIEW)).tolist():
        known = {normal_text(data.train.sentences[r]) for r in rows}
        known.add(normal_text(data.validation.sentences[query]))
        wanted = first if not rows else 1 - first
        if data.train.labels[row] == wanted and normal_text(data.train.sentences[row]) not in known:
            rows.append(row)
        if len(rows) == 2:
            break
    shown = "".join(review(data, row, LABEL[data.train.labels[row]]) for row in rows)
    return OPENING + shown + question(data, query), LABEL[data.validation.labels[query]]
