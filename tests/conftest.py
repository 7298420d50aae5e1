"""What all tests share: hypothesis profiles, one thread, and a switch for the shape checks of jaxtyping."""

import os
from collections.abc import Iterator

import jaxtyping
import pytest
import torch
from hypothesis import settings

# CI repeats the same dozen; a night draws new ones, and tests/test_accuracy.py keeps what it finds.
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True, max_examples=12)
settings.register_profile("nightly", deadline=None, max_examples=500, print_blob=True)
settings.register_profile("dev", deadline=None, max_examples=25)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
# One thread in the processes that tests start, too: two workers already fill two cores.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Matrices this small only wait for each other's threads, and threads are part of a run's identity."""
    torch.set_num_threads(1)


@pytest.fixture
def unchecked_shapes() -> Iterator[None]:
    """Run as in production, without jaxtyping: a mistake then meets the package's own message."""
    before = jaxtyping.config.jaxtyping_disable
    jaxtyping.config.update("jaxtyping_disable", True)
    try:
        yield
    finally:
        jaxtyping.config.update("jaxtyping_disable", before)
