"""Paired prompts as tokens: baseline and donor wrapped by the model's template, spans, label tokens.

Checked before anything runs: equal token length, spans at the same places in both, equal ids outside
them, labels of one token. A prompt that fails is refused with the reason, never dropped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from finite_calculus.models.spans import check_donor
from finite_calculus.provenance.digests import digest
from finite_calculus.tasks.synthetic import retrieval_pair
from finite_calculus.tasks.tokens import Span, label_tokens, message_tokens, require_fit


@dataclass(frozen=True)
class PairText:
    """One pair as text: a common opening, the records of both sides, a common question.

    `answer` is the label that is right for the baseline and `source` says where the pair came from,
    as numbers: a seed, or rows of a data set.
    """

    task: str
    pair: int
    opening: str
    records: tuple[str, ...]
    donor_records: tuple[str, ...]
    question: str
    answer: str
    source: Mapping[str, Any]

    @property
    def unit(self) -> str:
        """The name of the unit, as in "retrieval-000"."""
        return f"{self.task}-{self.pair:03d}"

    def text(self, records: Sequence[str]) -> str:
        """The user's message with the given records."""
        return self.opening + "".join(records) + self.question


def retrieval_text(pair: int, seed: int) -> PairText:
    """One of the paper's retrieval pairs as text."""
    baseline, donor = retrieval_pair(pair, seed=seed)
    return PairText(
        task="retrieval",
        pair=pair,
        opening=baseline.instruction,
        records=baseline.records,
        donor_records=donor.records,
        question=baseline.question,
        answer=baseline.answer,
        source={"seed": [seed, pair]},
    )


@dataclass(frozen=True)
class PairTokens:
    """One pair as tokens; spans are (first, last + 1), the same on both sides."""

    text: PairText
    baseline: tuple[int, ...]
    donor: tuple[int, ...]
    spans: tuple[Span, ...]
    labels: tuple[int, int]

    def manifest(self) -> dict[str, Any]:
        """What is kept of a pair: numbers and hashes, no text."""
        sides = (self.text.records, self.text.donor_records)
        return {
            "unit": self.text.unit,
            "task": self.text.task,
            "pair": self.text.pair,
            "source": dict(self.text.source),
            "answer": self.text.answer,
            "tokens": len(self.baseline),
            "spans": [list(span) for span in self.spans],
            "label_tokens": list(self.labels),
            "text_sha256": [digest(self.text.text(records).encode()) for records in sides],
            "ids_sha256": [digest(list(self.baseline)), digest(list(self.donor))],
        }


def tokenise(pair: PairText, tokenizer: Any, context: int) -> PairTokens:
    """Tokens of a pair, with every check; `context` is how many tokens the model takes."""
    where = f"Pair {pair.unit}"
    (baseline, spans), (donor, donor_spans) = (
        message_tokens(where, pair.opening, records, pair.question, tokenizer)
        for records in (pair.records, pair.donor_records)
    )
    inside = [token for first, stop in spans for token in range(first, stop)]
    try:
        check_donor(baseline, donor, inside, tokenizer=tokenizer)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from None
    if spans != donor_spans:
        raise ValueError(
            f"{where}: spans must lie at the same tokens on both sides; got {spans} and {donor_spans}."
        )
    require_fit(where, baseline, context)
    return PairTokens(
        pair, baseline, donor, spans, label_tokens(pair.text(pair.records), tokenizer)
    )
