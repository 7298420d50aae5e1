"""The explorer of the embedded model, which answers a question on two entities."""

from collections.abc import Iterator

import pytest

from finite_calculus.checkpoints import load
from finite_calculus.explore import Explorer, Session
from finite_calculus.models import Instrument, attach

PROMPT = "Entity 01: A Entity 02: B Question: What is the label of Entity 02? Answer:"
DONOR = PROMPT.replace("02: B", "02: A")


@pytest.fixture(scope="package")
def instrument() -> Iterator[Instrument]:
    model, tokenizer = load("embedded")
    with attach(model, tokenizer=tokenizer) as attached:
        yield attached


@pytest.fixture
def session(instrument: Instrument) -> Session:
    """A session in which the prompt has been captured."""
    session = Session(instrument, "embedded")
    session.ask(PROMPT, "A", "B", chat=False)
    return session


@pytest.fixture(scope="module")
def asked(instrument: Instrument) -> Session:
    """Such a session for tests that change nothing in it."""
    session = Session(instrument, "embedded")
    session.ask(PROMPT, "A", "B", chat=False)
    return session


@pytest.fixture(scope="module")
def explorer(instrument: Instrument) -> Iterator[Explorer]:
    """The page of a session in which nothing has been asked."""
    with Explorer(Session(instrument, "embedded")) as serving:
        yield serving
