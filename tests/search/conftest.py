"""Captures that the tests of the search share: the embedded model on its task, and a tiny Llama."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import torch

from finite_calculus.checkpoints import load
from finite_calculus.models import Capture, Instrument, attach
from finite_calculus.models.tiny import tiny_model
from finite_calculus.tasks.synthetic import retrieval_pair


@dataclass(frozen=True)
class CapturedPair:
    """An attached model with a captured prompt and a donor of equal length."""

    instrument: Instrument
    capture: Capture
    donor: Capture


@pytest.fixture(scope="session")
def embedded() -> Iterator[CapturedPair]:
    """The embedded model on a retrieval prompt that it answers."""
    model, tokenizer = load("embedded")
    texts = [
        tokenizer.apply_chat_template(
            [{"role": "user", "content": prompt.text}], tokenize=False, add_generation_prompt=True
        )
        for prompt in retrieval_pair(0)
    ]
    with attach(model, tokenizer=tokenizer) as instrument:
        captures = [instrument.capture(text, answer="A", versus="B") for text in texts]
        yield CapturedPair(instrument, *captures)


@pytest.fixture(scope="session")
def llama() -> Iterator[CapturedPair]:
    """A tiny random Llama on a prompt that is shorter than its heads are wide."""
    yield from _tiny("llama", 7)


@pytest.fixture(scope="session", params=["llama", "gemma2", "gpt_oss", "gpt2", "mistral"])
def family(request: pytest.FixtureRequest) -> Iterator[CapturedPair]:
    """Grouped heads; caps and windows; sinks; no rotary positions; windows everywhere."""
    yield from _tiny(request.param, 14)


def _tiny(name: str, tokens: int) -> Iterator[CapturedPair]:
    draw = torch.Generator().manual_seed(3)
    ids = torch.randint(3, 96, (2, tokens), generator=draw)
    ids[1, -1] = ids[0, -1]
    with attach(tiny_model(name)) as instrument:
        captures = [instrument.capture(row, answer=5, versus=9) for row in ids]
        yield CapturedPair(instrument, *captures)
