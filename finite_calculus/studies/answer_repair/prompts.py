"""Cases as tokens: the prompt, its emphasised forms, and the token with which a right answer begins."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from finite_calculus.harness import Policy
from finite_calculus.provenance.digests import digest
from finite_calculus.studies.answer_repair.settings import RepairSettings
from finite_calculus.tasks.api_cases import EMPHASES, ApiCase, Stream, api_cases
from finite_calculus.tasks.tokens import require_fit, wrapped

CONFIRMATION = "confirmation"


@dataclass(frozen=True)
class CasePrompt:
    """One case for a model; `confirms` marks the unit that runs the selected case again.

    `target` is the token that a right answer begins with, `places` are the tokens of the prompt that spell
    the name of the function.
    """

    case: ApiCase
    ids: tuple[int, ...]
    emphasised: tuple[tuple[int, ...], ...]
    target: int
    places: tuple[int, ...]
    confirms: bool = False

    @property
    def stream(self) -> str:
        """The stream of cases that it is from."""
        return self.case.name.partition("-")[0]

    def manifest(self) -> dict[str, Any]:
        """Numbers and hashes, no text."""
        case = self.case
        return {
            "case": case.name,
            "kind": case.kind,
            "tokens": len(self.ids),
            "target": self.target,
            "ids_sha256": digest(list(self.ids)),
            "emphasised_sha256": [digest(list(ids)) for ids in self.emphasised],
            "checks_sha256": digest([[dict(t.inputs), t.expected] for t in case.trials]),
            "contract_sha256": digest(dict(case.contract.functions)),
        }


def plan_cases(
    settings: RepairSettings, tokenizer: Any, context: int, stage: str, policy: Policy | None
) -> dict[str, CasePrompt]:
    """The units of a stage by name."""
    if settings.tries > len(EMPHASES):
        raise ValueError(
            f"`tries` must be at most {len(EMPHASES)}, the ways to emphasise a prompt, for every arm to have "
            f"as many continuations; got {settings.tries}."
        )
    count = settings.search_cases if stage == "search" else settings.cases
    cases = api_cases(cast("Stream", stage), count, seed=settings.seed)
    prompts = {case.name: prompt_of(case, tokenizer, context) for case in cases}
    if policy is None or policy["case"] is None:
        return prompts
    searched = api_cases("search", settings.search_cases, seed=settings.seed)
    case = next(case for case in searched if case.name == policy["case"])
    again = replace(prompt_of(case, tokenizer, context), confirms=True)
    return {CONFIRMATION: again, **prompts}


def prompt_of(case: ApiCase, tokenizer: Any, context: int) -> CasePrompt:
    """A case in a model's tokens; refused where it does not fit."""
    messages = (case.message, *case.emphasised)
    end, target = _beginning(case, prompt_text(case, case.message, tokenizer), tokenizer)
    texts = [prompt_text(case, message, tokenizer) + end for message in messages]
    ids, *emphasised = (_ids(case, text, tokenizer) for text in texts)
    for each in (ids, *emphasised):
        require_fit(f"Case {case.name}", each, context)
    offsets = _encoded(case, texts[0], tokenizer)["offset_mapping"]
    return CasePrompt(case, ids, tuple(emphasised), target, _places(offsets, texts[0], case.target))


def prompt_text(case: ApiCase, message: str, tokenizer: Any) -> str:
    """The whole prompt with the beginning of the reply."""
    if case.chat and tokenizer.chat_template:
        return wrapped(message, tokenizer) + case.reply
    return f"{message}\n{case.reply}"


def _beginning(case: ApiCase, text: str, tokenizer: Any) -> tuple[str, int]:
    """How a prompt ends, with the space before the answer or without it, and the answer's first token.

    The space belongs to the answer unless the tokenizer joins it to what stands before.
    """
    for end, lead in (("", " "), (" ", "")):
        ids = _ids(case, text + end, tokenizer)
        longer = _ids(case, text + end + lead + case.solution, tokenizer)
        if longer[: len(ids)] == ids:
            return end, longer[len(ids)]
    raise ValueError(
        f"Case {case.name}: the prompt's tokens must stay when an answer follows; they do not for this "
        f"tokenizer. Choose another model."
    )


def _ids(case: ApiCase, text: str, tokenizer: Any) -> tuple[int, ...]:
    return tuple(_encoded(case, text, tokenizer)["input_ids"])


def _encoded(case: ApiCase, text: str, tokenizer: Any) -> Any:
    # A template writes its own special tokens; plain text gets those of the tokenizer.
    plain = not (case.chat and tokenizer.chat_template)
    return tokenizer(text, add_special_tokens=plain, return_offsets_mapping=True)


def _places(offsets: Sequence[tuple[int, int]], text: str, name: str) -> tuple[int, ...]:
    """Tokens that overlap a name wherever it stands as a word."""
    words = [match.span() for match in re.finditer(rf"\b{name}\b", text)]
    return tuple(
        n
        for n, (a, b) in enumerate(offsets)
        if any(a < stop and b > start for start, stop in words)
    )
