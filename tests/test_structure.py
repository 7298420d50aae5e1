"""What all results of the core have in common."""

import dataclasses
import importlib
import pkgutil

import pytest
import torch

import finite_calculus as fc

RESULTS = [
    item
    for info in pkgutil.iter_modules(fc.__path__)
    if not info.ispkg and info.name != "__main__"  # importing it runs the command line
    for item in vars(importlib.import_module(f"finite_calculus.{info.name}")).values()
    if dataclasses.is_dataclass(item) and item.__module__ == f"finite_calculus.{info.name}"
]
# Holds plain numbers alone, so that two of them can be compared.
COMPARED = {fc.EvictionPlan}


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_results_cannot_be_changed(kind: type):
    result = object.__new__(kind)
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(result, dataclasses.fields(kind)[0].name, None)


@pytest.mark.parametrize("kind", RESULTS, ids=lambda kind: kind.__name__)
def test_results_that_hold_tensors_are_compared_by_identity(kind: type):
    # Tensors have no single truth value, so that comparing field by field would raise.
    assert (kind.__eq__ is object.__eq__) == (kind not in COMPARED)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_no_result_depends_on_the_default_type_of_torch(dtype: torch.dtype):
    scores, values = torch.tensor([0.1, 0.7], dtype=dtype), torch.ones(2, 1, dtype=dtype)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64 if dtype is torch.float32 else torch.float32)
    try:
        readout = fc.freeze(scores, values)
        assert fc.finite_response(readout, scores, values).dtype is dtype
        assert fc.rotate(fc.Rotary.from_base(1e4, 2), scores, 3.0).dtype is dtype
        assert fc.Rotary.from_base(1e4, 2).frequencies.dtype is torch.float64
    finally:
        torch.set_default_dtype(before)
