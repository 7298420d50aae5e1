"""Prompt sets as tokens: spans, alignment of orders, labels, and every refusal."""

from dataclasses import replace
from typing import Any

import pytest

from finite_calculus.checkpoints import load
from finite_calculus.tasks.prompt_sets import GAP, PAPER_SEED, PromptSet
from finite_calculus.tasks.set_families import family_sets
from finite_calculus.tasks.set_tokens import tokenise_set


@pytest.fixture(scope="module", params=["embedded", "smollm2-135m-instruct", "stories15m"])
def tokenizer(request: pytest.FixtureRequest) -> Any:
    """Tokenizers with and without a chat template."""
    try:
        return load(request.param)[1]
    except (OSError, RuntimeError, ValueError) as error:
        pytest.skip(f"{request.param} cannot be had here: {error}")


@pytest.fixture
def prompts() -> PromptSet:
    return family_sets("ordered", "test", 1, seed=PAPER_SEED)[0]


def test_spans_are_the_records_and_orders_correspond_one_to_one(tokenizer: Any) -> None:
    for family in ("corrupt", "ordered", "retrieval"):
        for prompts in family_sets(family, "test", 4, seed=PAPER_SEED):
            tokens = tokenise_set(prompts, tokenizer, 4096)
            for variant in tokens.variants:
                for record, (first, stop) in zip(prompts.records, variant.spans, strict=True):
                    assert record.strip() in tokenizer.decode(variant.ids[first:stop])
            for number in range(1, GAP):
                places = tokens.positions(number)
                assert sorted(places) == list(range(len(places)))
                assert places != tuple(range(len(places)))
                moved = [tokens.variants[number].ids[place] for place in places]
                assert tuple(moved) == tokens.variants[0].ids
                assert places[-1] == len(places) - 1


def test_labels_are_single_tokens_of_this_tokenizer(tokenizer: Any, prompts: PromptSet) -> None:
    labels = tokenise_set(prompts, tokenizer, 4096).labels
    assert [tokenizer.decode([label]).strip() for label in labels] == ["A", "B"]


def test_the_gap_has_no_counterpart(embedded: Any, prompts: PromptSet) -> None:
    tokens = tokenise_set(prompts, embedded[1], 512)
    with pytest.raises(
        ValueError, match=r"`variant` must be an order without the gap, 0..3; got 4"
    ):
        tokens.positions(GAP)
    assert len(tokens.variants[GAP].ids) - len(tokens.variants[0].ids) == 16 * 8


def test_a_set_that_does_not_fit_is_refused_by_its_longest_variant(
    embedded: Any, prompts: PromptSet
) -> None:
    longest = len(tokenise_set(prompts, embedded[1], 512).variants[GAP].ids)
    with pytest.raises(ValueError, match=f"Set ordered-test-000: the prompt has {longest} tokens"):
        tokenise_set(prompts, embedded[1], longest - 1)


def test_records_whose_tokens_depend_on_their_place_are_refused(
    embedded: Any, prompts: PromptSet
) -> None:
    # Without newlines this tokenizer joins "0" and "6" of two records into one token.
    records = tuple(f"{n}" for n in range(8))
    with pytest.raises(ValueError, match="Set ordered-test-000: "):
        tokenise_set(replace(prompts, records=records), embedded[1], 512)


def test_a_manifest_holds_no_text(embedded: Any, prompts: PromptSet) -> None:
    manifest = str(tokenise_set(prompts, embedded[1], 512).manifest())
    assert "Register" not in manifest
    assert "ids_sha256" in manifest
