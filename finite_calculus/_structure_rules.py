"""Error rules of what computes nothing: the error goes where the value goes."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from finite_calculus._arithmetic_rules import enter
from finite_calculus._tracked import error_in, map_tree, name_of, no_rule, plain, wrap

# fmt: off
STRUCTURAL = frozenset((
    "getitem", "reshape", "view", "expand", "unsqueeze", "squeeze", "flatten", "movedim", "transpose",
    "take_along_dim", "gather", "stack", "cat", "broadcast_to", "clone", "contiguous", "flip",
    "index_select", "narrow", "unbind", "split", "detach", "neg", "zeros_like", "ones_like",
))
DISCRETE = frozenset((
    "lt", "le", "gt", "ge", "eq", "ne", "isfinite", "isnan", "all", "any", "argmax", "argmin",
    "is_floating_point", "is_complex", "size", "dim", "numel", "len", "bool", "ndimension", "stride",
    "is_contiguous", "tolist", "item", "equal", "repr", "format",
))
# fmt: on


def _structural(func: Callable, args: tuple, kwargs: dict) -> Any:
    values = func(*map_tree(plain, args), **map_tree(plain, kwargs))
    if not _floating(values):
        return values
    if name_of(func) in ("zeros_like", "ones_like"):
        return wrap(values, torch.zeros_like(values, dtype=torch.float64))
    if any(isinstance(argument, torch.dtype) for argument in args):
        raise no_rule(func)  # a view of the same bits as other numbers
    errors = func(*map_tree(_as_error, args), **map_tree(_as_error, kwargs))
    if name_of(func) == "neg":
        errors = -errors
    return _pair(values, errors)


def _as_error(x: Any) -> Any:
    """The error in place of a floating operand; indices, masks and sizes stay as they are."""
    return error_in(x) if isinstance(x, Tensor) and x.is_floating_point() else x


def _where(func: Callable, args: tuple, kwargs: dict) -> Any:
    """A choice has the error of what is chosen, with what that loses in the type of the result."""
    value = func(*map_tree(plain, args))

    def error(x: Any) -> Any:
        chooses = isinstance(x, Tensor) and x.dtype is torch.bool
        return x if chooses else enter(x, value.dtype)[1]

    return wrap(value, func(*(error(argument) for argument in args)))


def _floating(values: Any) -> bool:
    first = values[0] if isinstance(values, tuple) and values else values
    return isinstance(first, Tensor) and first.is_floating_point()


def _pair(values: Any, errors: Any) -> Any:
    if isinstance(values, tuple):
        return tuple(_pair(v, e) for v, e in zip(values, errors, strict=True))
    return wrap(values, errors)


def _discrete(func: Callable, args: tuple, kwargs: dict) -> Any:
    """What is no floating tensor carries no error."""
    return func(*map_tree(plain, args), **map_tree(plain, kwargs))


RULES: dict[str, Callable] = {
    **dict.fromkeys([*STRUCTURAL, "get"], _structural),
    **dict.fromkeys(DISCRETE, _discrete),
    "where": _where,
}
