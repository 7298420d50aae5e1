"""Mistakes in batches: the axes that count are the last ones, and each argument has its own name."""

import re
from collections.abc import Callable

import pytest
from torch import Tensor

import finite_calculus as fc
from tests.helpers.tensors import draw

pytestmark = pytest.mark.usefixtures("unchecked_shapes")

KEYS, WIDTH, MODEL = 5, 3, 4


def cells(longer: int) -> list[Tensor]:
    return [draw(MODEL + (index == longer)) for index in range(4)]


REFUSED: dict[str, tuple[Callable[[], object], str]] = {
    "targets of other examples": (
        lambda: fc.regression_step(draw(2, KEYS, WIDTH), draw(2, 4)),
        "`targets` must have trailing shape (5), that is (..., examples); got (2, 4)",
    ),
    "moved cells of other shape": (
        lambda: fc.phase_context(*cells(1)),
        "`moved` must have shape (4), that is the shape of `original`; got (5,)",
    ),
    "rewritten cells of other shape": (
        lambda: fc.phase_context(*cells(2)),
        "`rewritten` must have shape (4), that is the shape of `original`; got (5,)",
    ),
    "reordered cells of other shape": (
        lambda: fc.phase_context(*cells(3)),
        "`reordered` must have shape (4), that is the shape of `original`; got (5,)",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_mistake_names_the_argument_and_its_last_axes(name: str):
    call, message = REFUSED[name]
    with pytest.raises(ValueError, match=re.escape(message)):
        call()
