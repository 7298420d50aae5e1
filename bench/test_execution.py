"""Executing edits on SmolLM2-135M, per edit: beside plain Hugging Face, and beside what cannot be spared.

The target of 512 edits, 200 times the best of three libraries that edit activations, was set when that
took 1/9.2 s where a plain forward pass took 1/5.0 s. What the libraries reach beside a plain forward pass is
measured by bench/peers.py and kept in bench/peers.json.
"""

from collections.abc import Iterator

import pytest
import torch

from bench.execution import Work, loaded
from finite_calculus.models import attach

BEST_PEER = 9.2 / 5.0


@pytest.fixture(scope="module")
def work() -> Iterator[Work]:
    with torch.inference_mode(False), attach(loaded()) as instrument:
        assert instrument.probed
        yield Work(instrument)


@pytest.fixture(autouse=True)
def _with_gradients(_without_gradients: None) -> Iterator[None]:
    """Captures need a backward pass."""
    with torch.inference_mode(False):
        yield


@pytest.mark.parametrize(("count", "target"), [(32, None), (128, None), (512, 200 * BEST_PEER)])
def test_execution_beside_a_forward_pass_per_edit(compare, work, count: int, target: float | None):
    compare(
        f"an edit executed, {count} a batch",
        lambda: work.run(count),
        lambda: work.plain(work.edits(1)[0]),
        named="plain forward pass",
        items=(count, 1),
        target=target,
    )


@pytest.mark.parametrize("count", [32, 512])
def test_execution_beside_a_copied_and_patched_cache(compare, work, count: int):
    edits = work.edits(32)
    compare(
        f"an edit executed, {count} a batch",
        lambda: work.run(count),
        lambda: work.copied(edits),
        named="prefix cache copied and patched, batch 32",
        items=(count, 32),
    )


def test_set_up_and_execution_of_24_edits(compare, work):
    """Beside a plain pass per edit 24 is all there is, since the set-up alone takes one."""
    compare(
        "an edit of 24, prefix, capture and gradient charged",
        lambda: work.from_scratch(24),
        lambda: work.plain(work.edits(1)[0]),
        named="plain forward pass",
        items=(24, 1),
    )


def test_set_up_and_execution_of_24_edits_beside_their_floor(compare, work):
    compare(
        "24 edits, prefix, capture and gradient charged",
        lambda: work.from_scratch(24),
        lambda: work.floor(25),
        named="prefix, one gradient and the rows' matrix products alone",
        target=1 / 1.15,
    )


def test_the_prefix_beside_a_forward_pass(compare, work):
    """Most of the set-up is the pass over the prefix, which nothing can do without."""
    compare(
        "the prefix of a prompt alone",
        work.prefix,
        lambda: work.plain(work.edits(1)[0]),
        named="plain forward pass",
    )


@pytest.mark.parametrize(("count", "within"), [(128, 2.0), (512, 1.6)])
def test_execution_beside_its_matrix_products(compare, work, count: int, within: float):
    compare(
        f"{count} edits executed",
        lambda: work.run(count),
        lambda: work.products(count + 1),
        named="their matrix products alone",
        target=1 / within,
    )


def test_the_three_ways_agree(work):
    edits = work.edits(6)
    ours = work.run(6)
    plain = torch.stack([work.plain(edit) for edit in edits]).double()
    copied = work.copied(edits).double()
    # The paper's tolerance for native float32.
    assert bool(((ours - plain).abs() <= 5e-5 + 5e-4 * plain.abs()).all())
    assert bool(((ours - copied).abs() <= 5e-5 + 5e-4 * copied.abs()).all())
