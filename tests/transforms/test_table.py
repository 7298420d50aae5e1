"""The table forgets no public function, and refuses nothing without a reason."""

import dataclasses
import inspect
from collections.abc import Iterator

import finite_calculus as fc
from tests.transforms.case import TRANSFORMS
from tests.transforms.table import TABLE


def public_callables() -> Iterator[str]:
    """Public functions, and the methods and properties of public classes, that may meet a tensor."""
    for name, thing in vars(fc).items():
        if name.startswith("_"):
            continue
        if inspect.isfunction(thing):
            yield name
        elif inspect.isclass(thing) and dataclasses.is_dataclass(thing):
            yield from (f"{name}.{member}" for member in computed_members(thing))


def computed_members(owner: type) -> Iterator[str]:
    """Methods and properties, unless they are mere sizes."""
    for name, member in vars(owner).items():
        function = member.fget if isinstance(member, property) else inspect.unwrap(member)
        function = getattr(function, "__func__", function)
        if name.startswith("_") or not inspect.isfunction(function):
            continue
        if inspect.signature(function).return_annotation not in (int, tuple[int, ...]):
            yield name


def test_every_public_function_and_method_is_in_the_table():
    names = {key.split(",")[0] for key in TABLE}
    expected = set(public_callables())
    assert len(expected) > 80
    assert expected - names == set()
    assert names - expected == set()


def test_the_one_public_class_that_is_no_dataclass_is_the_tracked_tensor():
    classes = {name for name, thing in vars(fc).items() if inspect.isclass(thing)}
    assert {name for name in classes if not dataclasses.is_dataclass(vars(fc)[name])} == {"Tracked"}


def test_refusals_name_a_transform_and_a_reason():
    for name, case in TABLE.items():
        assert set(case.refused) <= set(TRANSFORMS), name
        assert all(case.refused.values()), name


def test_most_combinations_work():
    refused = sum(len(case.refused) for case in TABLE.values())
    assert refused < len(TABLE) * len(TRANSFORMS) / 8
