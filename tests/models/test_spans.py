"""Spans given as text find their tokens, and donors that do not line up are refused by name."""

import pytest

from finite_calculus.models import attach, check_donor, span

PROMPT = "the cat sat on a red mat . the dog sat on a blue mat ."


def test_a_text_is_found_by_its_offsets(tokenizer):
    assert span(PROMPT, "red mat", tokenizer) == (5, 6)
    assert span(PROMPT, "sat", tokenizer) == (2,)
    assert span(PROMPT, "sat", tokenizer, occurrence=1) == (10,)


def test_part_of_a_word_selects_its_token(tokenizer):
    assert span(PROMPT, "ed ma", tokenizer) == (5, 6)


def test_an_instrument_knows_its_tokenizer(tiny, tokenizer):
    with attach(tiny("qwen2"), tokenizer=tokenizer) as instrument:
        assert instrument.span(PROMPT, "blue") == (13,)


def test_texts_that_do_not_occur_are_refused(tokenizer):
    with pytest.raises(ValueError, match="in the prompt at least 1 times; 'green' does not"):
        span(PROMPT, "green", tokenizer)
    with pytest.raises(ValueError, match="at least 3 times; 'sat' does not"):
        span(PROMPT, "sat", tokenizer, occurrence=2)
    with pytest.raises(ValueError, match="must cover a token of the prompt"):
        span("the  cat", "  ", tokenizer)


def test_a_slow_tokenizer_is_refused(tokenizer):
    class Slow:
        is_fast = False

    with pytest.raises(ValueError, match=r"Spans need a fast tokenizer.*got Slow"):
        span(PROMPT, "red", Slow())
    with pytest.raises(ValueError, match="`prompt` was given as text"):
        span(PROMPT, "red", None)


def test_a_donor_may_differ_inside_the_spans_only(tokenizer):
    base = tokenizer(PROMPT)["input_ids"]
    other = tokenizer(PROMPT.replace("red", "blue"))["input_ids"]
    check_donor(base, other, span(PROMPT, "red", tokenizer))
    with pytest.raises(ValueError, match=r"token 5 is 10 \('blue'\) instead of 9 \('red'\)"):
        check_donor(base, other, (4,), tokenizer=tokenizer)
    with pytest.raises(ValueError, match="token 5 is 10 instead of 9"):
        check_donor(base, other, (4,))


def test_a_donor_of_another_length_is_refused(tokenizer):
    base = tokenizer(PROMPT)["input_ids"]
    with pytest.raises(ValueError, match="must have the baseline's 16 tokens; it has 15"):
        check_donor(base, base[:-1], ())
