"""Paired prompts as tokens: baseline and donor wrapped by the model's template, spans, label tokens.

Checked before anything runs: equal token length, spans at the same places in both, equal ids outside
them, labels of one token. A prompt that fails is refused with the reason, never dropped.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from finite_calculus.models.spans import check_donor
from finite_calculus.provenance.digests import digest

LABELS = ("A", "B")
Span = tuple[int, int]


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
    baseline, spans = _side(pair, pair.records, tokenizer)
    donor, donor_spans = _side(pair, pair.donor_records, tokenizer)
    inside = [token for first, stop in spans for token in range(first, stop)]
    try:
        check_donor(baseline, donor, inside, tokenizer=tokenizer)
    except ValueError as error:
        raise ValueError(f"Pair {pair.unit}: {error}") from None
    if spans != donor_spans:
        raise ValueError(
            f"Pair {pair.unit}: spans must lie at the same tokens on both sides; got {spans} and "
            f"{donor_spans}."
        )
    if len(baseline) > context:
        raise ValueError(
            f"Pair {pair.unit}: the prompt has {len(baseline)} tokens and the model takes {context}. "
            f"It does not fit: choose another task or model."
        )
    labels = _label_tokens(wrapped(pair.text(pair.records), tokenizer), tokenizer)
    return PairTokens(pair, baseline, donor, spans, labels)


def wrapped(text: str, tokenizer: Any) -> str:
    """The user's message in the model's chat template; as it is where there is none."""
    if not tokenizer.chat_template:
        return text
    message = [{"role": "user", "content": text}]
    return tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)


def _encoded(text: str, tokenizer: Any) -> Any:
    # A template writes its own special tokens; plain text gets those of the tokenizer.
    plain = not tokenizer.chat_template
    return tokenizer(text, add_special_tokens=plain, return_offsets_mapping=True)


def _side(
    pair: PairText, records: Sequence[str], tokenizer: Any
) -> tuple[tuple[int, ...], tuple[Span, ...]]:
    text = pair.text(records)
    whole = wrapped(text, tokenizer)
    if whole.count(text) != 1:
        raise ValueError(
            f"Pair {pair.unit}: the template must contain the message once and unchanged; it contains "
            f"it {whole.count(text)} times."
        )
    encoding = _encoded(whole, tokenizer)
    place = whole.index(text) + len(pair.opening)
    spans = []
    for record in records:
        spans.append(_span(pair, encoding["offset_mapping"], place, place + len(record)))
        place += len(record)
    for before, after in pairwise(spans):
        if before[1] > after[0]:
            raise ValueError(
                f"Pair {pair.unit}: spans must not share tokens; {before} and {after} do. This "
                f"tokenizer joins the end of a record with the beginning of the next."
            )
    return tuple(encoding["input_ids"]), tuple(spans)


def _span(pair: PairText, offsets: Sequence[tuple[int, int]], start: int, stop: int) -> Span:
    """Tokens that overlap the characters start..stop; they are consecutive."""
    inside = [n for n, (a, b) in enumerate(offsets) if a < stop and b > start]
    if not inside:
        raise ValueError(f"Pair {pair.unit}: a record must cover at least one token; one does not.")
    return inside[0], inside[-1] + 1


def _label_tokens(whole: str, tokenizer: Any) -> tuple[int, int]:
    """The token of each label where the prompt ends; after plain text a space comes first."""
    lead = "" if tokenizer.chat_template else " "
    ids = list(_encoded(whole, tokenizer)["input_ids"])
    tokens = []
    for label in LABELS:
        longer = list(_encoded(whole + lead + label, tokenizer)["input_ids"])
        if longer[:-1] != ids:
            raise ValueError(
                f"The label {lead + label!r} must be one token at the end of the prompt; it is not for "
                f"this tokenizer. The study needs a margin between two tokens."
            )
        tokens.append(int(longer[-1]))
    return tokens[0], tokens[1]
