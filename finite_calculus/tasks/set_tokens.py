"""Prompt sets as tokens: five variants in the model's template, whose records are the same tokens in each.

Checked before anything runs: labels of one token, records that are cut into the same tokens wherever they
stand, so that the tokens of two orders correspond one to one.
"""

from dataclasses import dataclass
from typing import Any

from finite_calculus.provenance.digests import digest
from finite_calculus.tasks.prompt_sets import GAP, PromptSet
from finite_calculus.tasks.tokens import Span, label_tokens, message_tokens, require_fit


@dataclass(frozen=True)
class VariantTokens:
    """One variant: its ids, and the span (first, last + 1) of each record in the set's original order."""

    ids: tuple[int, ...]
    spans: tuple[Span, ...]

    @property
    def demonstrations(self) -> tuple[int, ...]:
        """The tokens of all records, from first to last."""
        return tuple(sorted(token for span in self.spans for token in range(*span)))


@dataclass(frozen=True)
class SetTokens:
    """A set as tokens; `labels` are the tokens of A and B after its prompts."""

    text: PromptSet
    variants: tuple[VariantTokens, ...]
    labels: tuple[int, int]

    def positions(self, variant: int) -> tuple[int, ...]:
        """Where each token of the original prompt stands in a reordered one."""
        if variant == GAP:
            raise ValueError(
                f"`variant` must be an order without the gap, 0..{GAP - 1}; got {variant}. The notes have "
                f"no counterpart in the original prompt."
            )
        original, other = self.variants[0], self.variants[variant]
        places = list(range(len(original.ids)))
        for span, moved in zip(original.spans, other.spans, strict=True):
            places[slice(*span)] = range(*moved)
        return tuple(places)

    def manifest(self) -> dict[str, Any]:
        """What is kept of a set: numbers and hashes, no text."""
        return {
            "unit": self.text.unit,
            "source": dict(self.text.source),
            "orders": [list(order) for order in self.text.orders],
            "answers": list(self.text.answers),
            "tokens": [len(variant.ids) for variant in self.variants],
            "label_tokens": list(self.labels),
            "ids_sha256": [digest(list(variant.ids)) for variant in self.variants],
        }


def tokenise_set(prompts: PromptSet, tokenizer: Any, context: int) -> SetTokens:
    """Tokens of a set, with every check; `context` is how many tokens the model takes."""
    where = f"Set {prompts.unit}"
    variants = tuple(_variant(where, prompts, number, tokenizer) for number in prompts.variants)
    require_fit(where, max((variant.ids for variant in variants), key=len), context)
    labels = {label_tokens(prompts.text(number), tokenizer) for number in prompts.variants}
    tokens = SetTokens(prompts, variants, labels.pop())
    if labels:
        raise ValueError(
            f"{where}: the labels must be the same tokens in all variants; they differ."
        )
    _require_alignment(where, tokens)
    return tokens


def _variant(where: str, prompts: PromptSet, number: int, tokenizer: Any) -> VariantTokens:
    ids, spans = message_tokens(
        where, prompts.opening, prompts.ordered_records(number), prompts.rest(number), tokenizer
    )
    order = prompts.orders[number]
    return VariantTokens(ids, tuple(spans[order.index(record)] for record in range(len(order))))


def _require_alignment(where: str, tokens: SetTokens) -> None:
    """Require that every reordering is the original's tokens in other places, one to one."""
    original = tokens.variants[0]
    for number in range(1, GAP):
        other = tokens.variants[number]
        sizes = [[stop - first for first, stop in spans] for spans in (original.spans, other.spans)]
        alike = sizes[0] == sizes[1] and len(original.ids) == len(other.ids)
        if not alike or any(
            original.ids[n] != other.ids[place] for n, place in enumerate(tokens.positions(number))
        ):
            raise ValueError(
                f"{where}: records must be cut into the same tokens in every order; those of order "
                f"{number} are not. This tokenizer joins a record with its neighbours."
            )
