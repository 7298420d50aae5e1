"""Every tensor that a function makes lives on the device of what it was given.

The default device is set to one without memory, so that a tensor made without naming a device cannot
be combined with the others.
"""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from tests.helpers.tensors import draw

HEADS, KEYS, WIDTH, MODEL = 2, 5, 3, 4


def on_cpu(*numbers: Any) -> Tensor:
    return torch.tensor(numbers, device="cpu")


@pytest.fixture
def elsewhere() -> Iterator[None]:
    """A default device that holds nothing."""
    with torch.device("meta"):
        yield


def readout(**options: Any) -> fc.Readout:
    return fc.freeze(draw(HEADS, KEYS), draw(HEADS, KEYS, WIDTH), **options)


def rotary() -> fc.Rotary:
    return fc.Rotary(on_cpu(1.0, 0.5, 0.1), 8)


def cache() -> fc.CachePair:
    parts = [
        draw(*shape, seed=seed)
        for seed in (0, 1)
        for shape in ((HEADS, KEYS), (HEADS, KEYS, WIDTH))
    ]
    return fc.CachePair(*parts)


def removed() -> Tensor:
    return torch.eye(KEYS, dtype=torch.bool, device="cpu")


CALLS: dict[str, Callable[[], Any]] = {
    "freeze": readout,
    "freeze with a mask": lambda: readout(mask=on_cpu(True, False, True, True, False)),
    "decompose": lambda: fc.decompose(readout(), draw(HEADS, KEYS), draw(HEADS, KEYS, WIDTH)),
    "band_interaction": lambda: fc.band_interaction(readout(), draw(KEYS), draw(KEYS, seed=1)),
    "deletion_response": lambda: fc.deletion_response(readout(), removed()),
    "deletion_jacobian": lambda: fc.deletion_jacobian(readout(), removed()),
    "select_evictions": lambda: fc.select_evictions(
        readout(), removed(), draw(HEADS, WIDTH, MODEL), 1.0
    ),
    "prepare": lambda: fc.prepare(readout(), on_cpu([0, 1], [2, 4])).response(draw(2, 2)),
    "prepare of heavy groups": lambda: fc.prepare(
        readout(), on_cpu([0, 1, 2, 3], [1, 2, 3, 4])
    ).response(draw(HEADS, 2, 4)),
    "prepare_spans of heavy spans": lambda: fc.prepare_spans(
        fc.read_bank(draw(HEADS, KEYS), draw(HEADS, KEYS, WIDTH)), on_cpu(0, 1), 4
    ).response(draw(HEADS, 2, 4)),
    "prepare_spans with a mask": lambda: fc.prepare_spans(
        fc.read_bank(
            draw(HEADS, KEYS),
            draw(HEADS, KEYS, WIDTH),
            mask=on_cpu(True, False, True, True, True),
        ),
        on_cpu(0, 1),
        4,
    ).deletion(),
    "prepare_singles": lambda: fc.prepare_singles(readout()).response(draw(HEADS, KEYS)),
    "strong edits of single keys": lambda: fc.prepare_singles(readout()).response(
        800 * draw(HEADS, KEYS)
    ),
    "restoration_response": lambda: fc.restoration_response(
        readout(), draw(HEADS, KEYS), draw(HEADS, KEYS, WIDTH)
    ),
    "restore_greedily": lambda: fc.restore_greedily(cache(), draw(HEADS, WIDTH, MODEL), 2),
    "restore": lambda: cache().restore(1),
    "frequency_bands": lambda: fc.frequency_bands(rotary(), (1, 2)),
    "generator": lambda: fc.generator(rotary()),
    "rotate": lambda: fc.rotate(rotary(), draw(8), 3.0),
    "displacement in a band": lambda: fc.displacement(
        rotary(), draw(8), 3, band=on_cpu(True, False, True)
    ),
    "key_shift_scores": lambda: fc.key_shift_scores(rotary(), draw(1, 8), draw(KEYS, 8), 3.0),
    "effective_weights": lambda: fc.effective_weights(
        draw(MODEL), draw(KEYS, MODEL), draw(KEYS, WIDTH)
    ),
    "mean_key_gauge": lambda: fc.mean_key_gauge(draw(KEYS, MODEL), mask=removed()[0]),
    "preserving_directions": lambda: fc.preserving_directions(draw(2, MODEL)),
    "control_query": lambda: fc.control_query(
        draw(MODEL), draw(KEYS, MODEL), on_cpu([0, 1]), draw(1)
    ),
    "numerical_rank": lambda: fc.numerical_rank(draw(3, 4)),
    "quantise": lambda: fc.quantise(draw(KEYS), 4),
    "phi2": lambda: fc.phi2(draw(KEYS)),
}


def tensors(result: Any) -> Iterator[Tensor]:
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, tuple | list):
        for part in result:
            yield from tensors(part)
    elif hasattr(result, "__dict__"):
        yield from tensors(list(vars(result).values()))


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("name", CALLS)
def test_nothing_is_made_on_the_default_device(name: str):
    parts = list(tensors(CALLS[name]()))
    assert {part.device.type for part in parts} <= {"cpu"}
    # An index without memory selects anything at all, on the device of what it selects from.
    with torch.device("cpu"):
        expected = list(tensors(CALLS[name]()))
    assert all(torch.equal(one, other) for one, other in zip(parts, expected, strict=True))


@pytest.mark.usefixtures("elsewhere")
def test_the_default_device_is_really_another():
    assert torch.zeros(1).device.type == "meta"
    with pytest.raises(AssertionError):
        assert {part.device.type for part in tensors([torch.ones(1)])} <= {"cpu"}
