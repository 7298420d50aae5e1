"""Rows of one batch, each with edits and a cache of its own, against `model.generate` one at a time."""

from collections.abc import Sequence

import pytest
import torch

from finite_calculus.cache import Row, generate_rows
from finite_calculus.models import Instrument, Odds, ScaleValues
from tests.search.conftest import CapturedPair


def alone(instrument: Instrument, ids: torch.Tensor, count: int) -> tuple[int, ...]:
    """The tokens that transformers generates, from a prefill of its own."""
    whole = ids.unsqueeze(0)
    with torch.no_grad():
        sequences = instrument.model.generate(  # pyright: ignore[reportCallIssue]
            input_ids=whole,
            attention_mask=torch.ones_like(whole),
            max_new_tokens=count,
            do_sample=False,
            pad_token_id=0,
        )
    return tuple(sequences[0, len(ids) :].tolist())


def test_every_row_is_what_generate_makes_of_its_edits_alone(llama: CapturedPair) -> None:
    instrument, capture = llama.instrument, llama.capture
    tokens = range(len(capture.ids) - 1)
    last = len(capture.layers) - 1
    edits = [
        (),
        (Odds(1, (3,), 1.0),),
        (ScaleValues(last, tuple(tokens), 0.0),),
        (Odds(0, (5,), 64.0), ScaleValues(last, (2, 3), -8.0)),
    ]
    done = generate_rows(
        instrument, capture.ids, [Row(each) for each in edits], capture=capture, tokens=5
    )
    expected = []
    for each in edits:
        with instrument.installed(capture, list(each)):
            expected.append(alone(instrument, capture.ids, 5))
    assert list(done.tokens) == expected
    assert done.tokens[1] == done.tokens[0]
    assert len(set(done.tokens)) >= 2
    assert [int(row.argmax()) for row in done.logits] == [text[0] for text in done.tokens]


def test_the_prefix_is_left_as_it_was(llama: CapturedPair) -> None:
    instrument, capture = llama.instrument, llama.capture
    before = instrument.prompt(capture.ids).prefix.digest()
    edits = (ScaleValues(1, tuple(range(5)), 0.0),)
    generate_rows(instrument, capture.ids, [Row(), Row(edits)], capture=capture, tokens=2)
    assert instrument.prompt(capture.ids).prefix.digest() == before


def test_a_forced_first_token_is_followed_by_what_comes_after_it(llama: CapturedPair) -> None:
    instrument, ids = llama.instrument, llama.capture.ids
    done = generate_rows(instrument, ids, [Row(), Row(first=7)], tokens=3)
    longer = torch.cat([ids, torch.tensor([7])])
    assert done.tokens[1] == (7, *alone(instrument, longer, 2))
    assert done.tokens[0][0] != 7


def test_a_row_ends_where_it_is_told_and_others_go_on(llama: CapturedPair) -> None:
    instrument, ids = llama.instrument, llama.capture.ids

    def stop(tokens: Sequence[int]) -> bool:
        return tokens[0] == 7

    done = generate_rows(instrument, ids, [Row(), Row(first=7)], tokens=3, stop=stop)
    assert done.tokens[1] == (7,)
    assert done.tokens[0] == alone(instrument, ids, 3)


def test_what_cannot_be_generated_is_refused(llama: CapturedPair) -> None:
    instrument, capture = llama.instrument, llama.capture
    edited = [Row((Odds(1, (3,), 2.0),))]
    with pytest.raises(ValueError, match="`tokens` must be at least 1; got 0"):
        generate_rows(instrument, capture.ids, [Row()], tokens=0)
    with pytest.raises(ValueError, match="`rows` must hold at least one continuation"):
        generate_rows(instrument, capture.ids, [])
    with pytest.raises(ValueError, match="`capture` must be given where a row has edits"):
        generate_rows(instrument, capture.ids, edited)
    with pytest.raises(ValueError, match="`capture` must be of the prompt `ids`"):
        generate_rows(instrument, capture.ids[:-1], edited, capture=capture)
    with (
        instrument.installed_rows(capture, [(), ()]),
        pytest.raises(ValueError, match="one row for each of `rows`, 2; it has 1"),
    ):
        alone(instrument, capture.ids, 1)
