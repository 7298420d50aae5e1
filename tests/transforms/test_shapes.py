"""Meta and fake tensors, which have no numbers, give the shapes and types of ordinary ones."""

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import finite_calculus as fc
from tests.transforms.case import Case, parts_of
from tests.transforms.table import TABLE


def on_meta(case: Case) -> dict[str, Tensor]:
    return parts_of(case.call(*(x.to("meta") for x in case.rows())))


def in_fake_mode(case: Case) -> dict[str, Tensor]:
    rows = case.rows()
    # Fixed indices and projections enter as ordinary tensors, as those of a user would.
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        return parts_of(case.call(*map(mode.from_tensor, rows)))


def plain(case: Case) -> dict[str, Tensor]:
    return parts_of(case.call(*case.rows()))


def cases(transform: str, *, refused: bool) -> list:
    return [
        pytest.param(case, id=name)
        for name, case in TABLE.items()
        if (transform in case.refused) == refused
    ]


def assert_shapes(result: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert result.keys() == expected.keys()
    for name, part in result.items():
        assert part.shape == expected[name].shape, name
        assert part.dtype == expected[name].dtype, name


@pytest.mark.parametrize("case", cases("meta", refused=False))
def test_meta_tensors_give_the_shapes_of_ordinary_ones(case: Case):
    result = on_meta(case)
    assert_shapes(result, plain(case))
    assert {part.device.type for part in result.values()} == {"meta"}


@pytest.mark.parametrize("case", cases("fake", refused=False))
def test_fake_tensors_give_the_shapes_of_ordinary_ones(case: Case):
    result = in_fake_mode(case)
    assert_shapes(result, plain(case))
    assert all(isinstance(part, FakeTensor) for part in result.values())


@pytest.mark.parametrize("case", cases("meta", refused=True))
def test_what_needs_numbers_refuses_meta_tensors(case: Case):
    with pytest.raises(RuntimeError, match=case.refused["meta"]) as caught:
        on_meta(case)
    assert "on the device 'meta'" in str(caught.value)


@pytest.mark.parametrize("case", cases("fake", refused=True))
def test_what_needs_numbers_refuses_fake_tensors(case: Case):
    with pytest.raises(RuntimeError, match=case.refused["fake"]) as caught:
        in_fake_mode(case)
    assert "of a FakeTensorMode" in str(caught.value)


def test_shapes_are_still_checked_without_numbers():
    readout = fc.freeze(torch.empty(5, device="meta"), torch.empty(5, 3, device="meta"))
    with pytest.raises(ValueError, match="`score_delta` must have trailing shape"):
        fc.finite_response(readout, torch.empty(6, device="meta"))
