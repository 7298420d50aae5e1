"""What all tests share: hypothesis profiles, and a switch for the shape checks of jaxtyping."""

import os
from collections.abc import Iterator

import jaxtyping
import pytest
from hypothesis import settings

settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.register_profile("dev", deadline=None, max_examples=25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Run as in production, without jaxtyping: a mistake then meets the package's own message."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
