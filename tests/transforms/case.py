"""A function of tensors to be transformed, and what its results are made of."""

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

import finite_calculus as fc
from tests.helpers.tensors import draw

# Torch's transforms of a function: each is tried on every case.
TRANSFORMS: tuple[str, ...] = ("vmap", "grad", "jacrev", "jvp", "meta", "fake", "compile")
DERIVATIVES: tuple[str, ...] = ("grad", "jacrev", "jvp")
# A transform that torch itself refuses, since no result is a floating-point number.
NO_DERIVATIVE = "integers have no derivative"


@dataclass(frozen=True)
class Case:
    """A function of tensors, the shapes of one row of them, and what is refused.

    `refused` gives for a transform what the package says, or NO_DERIVATIVE. `units` is None where results
    are compared within the running error bounds; otherwise within that many units of roundoff of the
    largest entry, 0 meaning bit by bit. `scale` multiplies the drawn numbers.
    """

    call: Callable[..., Any]
    shapes: tuple[tuple[int, ...], ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    units: int | None = None
    scale: float = 1.0

    def rows(self, *lead: int) -> list[Tensor]:
        """Random arguments with leading dimensions."""
        draws = enumerate(self.shapes)
        return [self.scale * draw(*lead, *shape, 1, seed=seed).squeeze(-1) for seed, shape in draws]


def parts_of(result: Any) -> dict[str, Tensor]:
    """All tensors in a result, by where they are in it."""
    if isinstance(result, Tensor):
        return {"": result}
    if dataclasses.is_dataclass(result):
        named = {entry.name: getattr(result, entry.name) for entry in dataclasses.fields(result)}
    elif isinstance(result, Mapping):
        named = dict(result)
    elif isinstance(result, tuple | list):
        named = dict(enumerate(result))
    else:
        return {}
    return {
        f"{name}.{inner}".rstrip("."): part
        for name, value in named.items()
        for inner, part in parts_of(value).items()
    }


def floating_parts(result: Any) -> tuple[Tensor, ...]:
    """The parts of a result that may have a derivative."""
    return tuple(part for part in parts_of(result).values() if part.is_floating_point())


def like(argument: Tensor, constant: Tensor) -> Tensor:
    """A fixed argument on the device of another one, in its dtype and tracked as that is."""
    dtype = argument.dtype if constant.is_floating_point() else constant.dtype
    moved = constant.to(argument.device, dtype)
    tracked = isinstance(argument, fc.Tracked) and constant.is_floating_point()
    return fc.track(moved) if tracked else moved
