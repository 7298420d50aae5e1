"""Compiles functions as users do, and says whether they agree with eager torch; run by `test_compile`.

A program of its own, because Dynamo cannot trace the shape checks of jaxtyping that pytest installs. Its
arguments are backends with names of the table, as "eager: freeze"; it prints the verdict on each.
"""

import json
import sys
import warnings
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.func import vmap

import finite_calculus as fc
from tests.batching.agreement import assert_agree
from tests.transforms.case import Case, parts_of
from tests.transforms.table import GROUPS, KEYS, STARTS, TABLE, WIDTH

BANK = TABLE["freeze"].rows()[:2]
READOUT = fc.freeze(*BANK)
EDITS = ((KEYS,), (KEYS, WIDTH))
MEMBERS = ((2, 2), (2, 2, WIDTH))
SPANS_OF_BANK = fc.prepare_spans(fc.read_bank(*BANK), STARTS[:2], 2)
# Some dozens of roundings of quantities no larger than the values and their increments.
UNITS = 64
# What is prepared once in eager torch, and then answers from inside a graph.
PREPARED = {
    "readout": Case(lambda d, e: fc.finite_response(READOUT, d, e), EDITS, units=UNITS),
    "groups": Case(fc.prepare(READOUT, GROUPS).response, MEMBERS, units=UNITS),
    "spans": Case(SPANS_OF_BANK.response, MEMBERS, units=UNITS),
    "singles": Case(fc.prepare_singles(READOUT).response, EDITS, units=UNITS),
}


class TrackedCase(Case):
    """A case whose arguments are tracked before they enter."""

    def rows(self, *lead: int) -> list[Tensor]:
        return [fc.track(x) for x in super().rows(*lead)]


CASES: dict[str, Case] = {**TABLE, **PREPARED, "tracked": TrackedCase(fc.phi1, ((4,),), units=0)}


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

    def errors_of(*rows: Tensor) -> dict[str, Tensor]:
        return {name: fc.error_of(part) for name, part in parts_of(tracked(case, rows)).items()}

    errors = vmap(errors_of)(*(x.unsqueeze(0) for x in case.rows()))
    return {
        name: fc.track(part, errors[name][0]) if part.is_floating_point() else part.double()
        for name, part in result.items()
    }


def in_eager_torch(case: Case) -> dict[str, Tensor]:
    if case.units is not None:
        return floats(parts_of(case.call(*case.rows())))
    return floats(parts_of(tracked(case, case.rows())))


def tracked(case: Case, rows: Sequence[Tensor]) -> object:
    return case.call(*map(fc.track, rows))


def floats(parts: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: x if x.is_floating_point() else x.double() for name, x in parts.items()}


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # torch's own, about itself
    torch.set_num_threads(1)
    jobs = {job: job.split(": ", 1) for job in sys.argv[1:]}
    print(json.dumps({job: verdict(CASES[name], backend) for job, (backend, name) in jobs.items()}))
