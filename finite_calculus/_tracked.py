"""A tensor that carries a bound on its own rounding error, and the units in which rules count.

What an operation does to the error is looked up in `RULES`, which `finite_calculus.rounding` fills from the
files of rules; an operation without a rule raises.
"""

import copy
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._transforms import refuted, require_constant, require_no_bound_inside

# The rules by the names of their operations.
RULES: dict[str, Callable] = {}
# One bound costs a few dozen float64 operations; this factor covers their own rounding.
UPWARDS = 1 + 2.0**-40
WIDE = 2.0**-53
# Python's spellings of operations that have one rule.
_SPELLINGS = {
    "__float__": "item",
    "__int__": "item",
    "double": "to",
    "float": "to",
}
# Operations of two operands and nothing else.
_BINARY = frozenset(["add", "sub", "rsub", "mul", "div"])


class Tracked(Tensor):
    """A tensor with an entrywise bound `error` (float64) on its distance from the exact result."""

    error: Tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = name_of(func)
        # In place or into `out`, the bound that a tensor carries would be left behind; a third argument
        # or a keyword (alpha, rounding_mode) makes another operation of an arithmetic one.
        in_place = func.__name__.endswith("_") and not func.__name__.endswith("__")
        in_place = in_place or kwargs.get("out") is not None
        if in_place or (name in _BINARY and (kwargs or len(args) > 2)):
            name = ""
        if name in RULES:
            return RULES[name](func, args, kwargs)
        raise no_rule(func)

    def _is_view(self) -> bool:
        # The first thing that torch.compile asks of an argument; nothing else asks it.
        raise RuntimeError(
            "Tensors must not be tracked where they enter torch.compile: the graph would not carry their "
            "error; got a tracked one. Pass value_of(tensor), or call without torch.compile."
        )

    def __deepcopy__(self, memo: dict) -> "Tracked":
        return track(copy.deepcopy(plain(self), memo), copy.deepcopy(self.error, memo))

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return track, (plain(self), self.error)


def track(tensor: Tensor, error: Tensor | float | None = None) -> Tracked:
    """Mark a tensor as exact, or as known to within `error`, for the running error analysis.

    A tensor that is tracked already keeps the error that it has, to which `error` is added.
    """
    _checks.floating("tensor", tensor)
    known = error_in(tensor)
    return wrap(plain(tensor), known if error is None else known + _require_error(error, tensor))


def _require_error(error: Any, tensor: Tensor) -> Tensor:
    """Errors in float64 and in the shape of the tensor; raise if they are no bounds."""
    bounds = torch.as_tensor(error, dtype=torch.float64, device=tensor.device)
    if refuted((bounds >= 0).all()):
        raise ValueError(
            f"`error` must hold bounds of at least 0; got {float(bounds.nan_to_num(-torch.inf).min())} "
            f"as its least. Give |computed − exact|, and infinity where it is not known."
        )
    try:
        return bounds.expand(tensor.shape)
    except RuntimeError:
        raise ValueError(
            f"`error` must broadcast to the shape of `tensor`, {tuple(tensor.shape)}; got "
            f"{tuple(bounds.shape)}. Give one bound for each entry."
        ) from None


def wrap(value: Tensor, error: Tensor) -> Tracked:
    """A tracked tensor, unless torch is set to round or flush in ways that no rule knows."""
    _checks.floating("tensor", value)
    require_constant(value)
    _checks.subnormal_numbers()
    _checks.full_products(value)
    tracked = Tensor._make_subclass(Tracked, value)
    tracked.error = error
    return tracked


def no_rule(func: Callable) -> TypeError:
    return TypeError(
        f"torch function {func.__name__!r} has no error rule: a bound cannot be derived through "
        f"it. Use an operation of finite_calculus.rounding, or add its rule there."
    )


def plain(x: Any) -> Any:
    return x.as_subclass(Tensor) if isinstance(x, Tracked) else x


def tensor_of(x: Any) -> Tensor:
    """The numbers of a tensor; a number as a float64 scalar on the CPU, which goes with any device."""
    return plain(x) if isinstance(x, Tensor) else torch.tensor(x, dtype=torch.float64, device="cpu")


def error_in(x: Any) -> Tensor:
    if isinstance(x, Tracked):
        return x.error
    if isinstance(x, Tensor):
        require_no_bound_inside("tensor", x)
    return torch.zeros_like(tensor_of(x), dtype=torch.float64)


def map_tree(convert: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, tuple | list):
        return type(tree)(map_tree(convert, item) for item in tree)
    if isinstance(tree, dict):
        return {key: map_tree(convert, item) for key, item in tree.items()}
    return convert(tree)


def name_of(func: Callable) -> str:
    """The name of an operation's rule: operators and methods of one operation share it."""
    return _SPELLINGS.get(func.__name__, func.__name__.strip("_"))


def size_of(x: Any) -> Tensor:
    """|x̂| in float64, exactly."""
    return tensor_of(x).double().abs()


def unit_of(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


def ulp_of(size: Tensor, dtype: torch.dtype) -> Tensor:
    """Unit in the last place of a number of this size: eps·2^⌊log2 size⌋."""
    mantissa, _ = torch.frexp(size)
    return torch.where(mantissa == 0, 0.0, torch.finfo(dtype).eps * size / (2 * mantissa))


def half_ulp(value: Tensor) -> Tensor:
    """What one rounding to `value` may have cost."""
    return ulp_of(size_of(value), value.dtype) / 2


def tiny_of(dtype: torch.dtype) -> float:
    """The smallest subnormal number: what one underflow may cost."""
    return torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps


def bounded(value: Tensor, error: Tensor) -> Tracked:
    """Wrap a computed value, adding what underflow may cost it and pushing the bound upwards.

    Where overflow or a division by zero leaves no bound to derive, it is infinite.
    """
    bound = error * UPWARDS + 4 * tiny_of(value.dtype)
    return wrap(value, torch.where(bound.isnan(), torch.inf, bound))
