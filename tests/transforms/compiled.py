"""Compiles functions as users do, and says whether they agree with eager torch; run by `test_compile`.

A program of its own, because Dynamo cannot trace the shape checks of jaxtyping that pytest installs. Its
arguments are a backend and names of the table; it prints an object with the verdict on each.
"""

import json
import sys
import warnings

import torch
from torch import Tensor
from torch.func import vmap

import finite_calculus as fc
from tests.batching.agreement import assert_agree
from tests.transforms.case import Case, parts_of
from tests.transforms.table import TABLE


def verdict(case: Case, backend: str) -> str:
    """'agrees', or what a compiled function says or does instead."""
    torch._dynamo.reset()
    rows = case.rows()

    def function(*arguments: Tensor) -> dict[str, Tensor]:
        return parts_of(case.call(*arguments))

    try:
        result = torch.compile(function, fullgraph=True, backend=backend)(*rows)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    try:
        assert_agree(case, with_errors(case, result), in_eager_torch(case))
    except AssertionError as error:
        return f"differs: {error}"
    return "agrees"


def with_errors(case: Case, result: dict[str, Tensor]) -> dict[str, Tensor]:
    """Compiled results with their error bounds.

    A graph takes the formulas that are right for all values, as vmap does; there they can be tracked.
    """
    if case.units is not None:
        return floats(result)
    errors = vmap(lambda *x: {k: fc.error_of(v) for k, v in parts_of(tracked(case, x)).items()})(
        *(x.unsqueeze(0) for x in case.rows())
    )
    return {
        name: fc.track(part, errors[name][0]) if part.is_floating_point() else part.double()
        for name, part in result.items()
    }


def in_eager_torch(case: Case) -> dict[str, Tensor]:
    if case.units is not None:
        return floats(parts_of(case.call(*case.rows())))
    return floats(parts_of(tracked(case, case.rows())))


def tracked(case: Case, rows: list[Tensor] | tuple[Tensor, ...]) -> object:
    return case.call(*map(fc.track, rows))


def floats(parts: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: x if x.is_floating_point() else x.double() for name, x in parts.items()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # torch's own, about itself
    torch.set_num_threads(1)
    backend, *names = sys.argv[1:]
    print(json.dumps({name: verdict(TABLE[name], backend) for name in names}))
