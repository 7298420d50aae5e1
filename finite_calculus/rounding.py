"""Running error analysis: a tensor that carries a rigorous bound on its own rounding error.

`track(x)` marks exact inputs; every torch function the core uses then returns a `Tracked` tensor whose
`error` bounds |computed − exact| entry by entry, whatever order torch sums in. The core itself is
written once and knows nothing of this file. An operation without a rule raises: an unknown error is
never taken for zero. Bounds are held in float64 and pushed upwards, so that rounding cannot make them
too small. Linear solvers and singular values have no rule here.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from finite_calculus.phi import phi1, phi2
from finite_calculus.rotary import sin_minus_angle

# Largest error of each elementary function in units in the last place, as torch computes it.
# tests/test_rounding.py measures them on the machine at hand, float64 and float32.
ULPS: dict[str, float] = {
    "exp": 1.0,
    "expm1": 1.5,
    "log": 1.0,
    "log1p": 1.0,
    "sin": 1.0,
    "cos": 1.0,
    "tanh": 1.5,
    "hypot": 1.5,
    "phi1": 3.0,
    "phi2": 5.0,
    "sin_minus_angle": 4.0,
}

# A result this much larger lies in the binade of the exact one, or above it.
_NEXT_BINADE = 1 + 1e-6
# One bound costs a few dozen float64 operations; this factor covers their own rounding.
_UPWARDS = 1 + 2.0**-40
_WIDE = 2.0**-53
# Below this size the low halves of a split product are not normal numbers.
_SPLITTABLE = 1e-280


class Tracked(Tensor):
    """A tensor with an entrywise bound `error` (float64) on its distance from the exact result."""

    error: Tensor

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        name = _name(func)
        # In place, the bound that the tensor carries would be left behind; a third argument or a
        # keyword (alpha, rounding_mode) makes another operation of an arithmetic one.
        in_place = func.__name__.endswith("_") and not func.__name__.endswith("__")
        if in_place or (name in _BINARY and (kwargs or len(args) > 2)):
            name = ""
        if name in _RULES:
            return _RULES[name](func, args, kwargs)
        if name in _STRUCTURAL or name == "get":
            return _structural(func, args, kwargs)
        if name in _DISCRETE:
            return func(*_map(_value, args), **_map(_value, kwargs))
        raise TypeError(
            f"torch function {func.__name__!r} has no error rule: a bound cannot be derived through "
            f"it. Use an operation of finite_calculus.rounding, or add its rule there."
        )


def track(tensor: Tensor, error: Tensor | None = None) -> Tracked:
    """Mark a tensor as exact, or as known to within `error`, for the running error analysis."""
    tracked = Tensor._make_subclass(Tracked, tensor)
    tracked.error = torch.zeros_like(tensor, dtype=torch.float64) if error is None else error
    return tracked


def value_of(tensor: Tensor) -> Tensor:
    """The computed value alone, as a plain tensor."""
    return _value(tensor)


def error_of(tensor: Tensor) -> Tensor:
    """The error bound of a tracked tensor; zero for a plain one, which is taken as exact."""
    return _error(tensor)


def upper(tensor: Tensor) -> Tensor:
    """The smallest convenient number of the tensor's dtype that is surely not below the exact result."""
    bound = _value(tensor).double() + _error(tensor)
    bound = torch.nextafter(bound, bound.new_tensor(torch.inf))
    narrow = bound.to(tensor.dtype)
    above = torch.nextafter(narrow, narrow.new_tensor(torch.inf))
    return torch.where(narrow.double() < bound, above, narrow)


def _value(x: Any) -> Any:
    return x.as_subclass(Tensor) if isinstance(x, Tracked) else x


def _error(x: Any) -> Tensor:
    if isinstance(x, Tracked):
        return x.error
    return torch.zeros_like(torch.as_tensor(x), dtype=torch.float64)


def _map(convert: Callable[[Any], Any], tree: Any) -> Any:
    if isinstance(tree, tuple | list):
        return type(tree)(_map(convert, item) for item in tree)
    if isinstance(tree, dict):
        return {key: _map(convert, item) for key, item in tree.items()}
    return convert(tree)


def _size(x: Any) -> Tensor:
    """|x̂| in float64, exactly."""
    return torch.as_tensor(_value(x)).double().abs()


def _unit(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).eps / 2


def _ulp(size: Tensor, dtype: torch.dtype) -> Tensor:
    """Unit in the last place of a number of this size: eps·2^⌊log2 size⌋."""
    mantissa, _ = torch.frexp(size)
    return torch.where(mantissa == 0, 0.0, torch.finfo(dtype).eps * size / (2 * mantissa))


def _half_ulp(value: Tensor) -> Tensor:
    """What one rounding to `value` may have cost."""
    return _ulp(_size(value), value.dtype) / 2


def _tiny(dtype: torch.dtype) -> float:
    """The smallest subnormal number: what one underflow may cost."""
    return torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps


def _result(value: Tensor, error: Tensor) -> Tracked:
    """Wrap a computed value, adding what underflow may cost it and pushing the bound upwards.

    Where overflow or a division by zero leaves no bound to derive, it is infinite.
    """
    bound = error * _UPWARDS + 4 * _tiny(value.dtype)
    return track(value, torch.where(bound.isnan(), torch.inf, bound))


# ---- structure: no arithmetic, so the error goes where the value goes ----

# fmt: off
_STRUCTURAL = frozenset((
    "getitem", "reshape", "view", "expand", "unsqueeze", "squeeze", "flatten", "movedim", "transpose",
    "take_along_dim", "gather", "stack", "cat", "broadcast_to", "clone", "contiguous", "flip",
    "index_select", "narrow", "unbind", "split", "where", "detach", "neg", "zeros_like", "ones_like",
))
_DISCRETE = frozenset((
    "lt", "le", "gt", "ge", "eq", "ne", "isfinite", "isnan", "all", "any", "argmax", "argmin",
    "is_floating_point", "is_complex", "size", "dim", "numel", "len", "bool", "ndimension", "stride",
    "is_contiguous", "tolist", "item", "equal", "repr", "format",
))
# fmt: on
# Python's spellings of operations that have one rule.
_SPELLINGS = {
    "__float__": "item",
    "__int__": "item",
    "double": "to",
    "float": "to",
}


def _name(func: Callable) -> str:
    """The name of an operation's rule: operators and methods of one operation share it."""
    return _SPELLINGS.get(func.__name__, func.__name__.strip("_"))


_BINARY = frozenset(["add", "sub", "rsub", "mul", "div"])


def _structural(func: Callable, args: tuple, kwargs: dict) -> Any:
    values = func(*_map(_value, args), **_map(_value, kwargs))
    if not _floating(values):
        return values
    if _name(func) in ("zeros_like", "ones_like"):
        return values
    errors = func(*_map(_as_error, args), **_map(_as_error, kwargs))
    if _name(func) == "neg":
        errors = -errors
    return _pair(values, errors)


def _as_error(x: Any) -> Any:
    """The error in place of a floating operand; indices, masks and sizes stay as they are."""
    if isinstance(x, Tensor) and x.is_floating_point():
        return _error(x)
    return 0.0 if isinstance(x, float) else x


def _floating(values: Any) -> bool:
    first = values[0] if isinstance(values, tuple) and values else values
    return isinstance(first, Tensor) and first.is_floating_point()


def _pair(values: Any, errors: Any) -> Any:
    if isinstance(values, tuple):
        return tuple(_pair(v, e) for v, e in zip(values, errors, strict=True))
    return track(values, errors)


# ---- arithmetic: u is the unit roundoff of the result's dtype ----


def _operands(args: tuple, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Values and errors of two operands; a Python number enters as torch rounds it to the dtype."""
    values, errors = [], []
    for operand in args[:2]:
        value = torch.as_tensor(_value(operand), dtype=dtype)
        exact = isinstance(operand, Tensor)
        values.append(value)
        errors.append(_error(operand) if exact else (value.double() - operand).abs())
    return values[0], values[1], errors[0], errors[1]


def _add(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    value = func(*_map(_value, args))
    x, y, x_error, y_error = _operands(args, value.dtype)
    if _name(func) == "sub":
        y = -y
    elif _name(func) == "rsub":
        x = -x
    return _result(value, x_error + y_error + _sum_residual(x, y, value))


def _mul(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    value = func(*_map(_value, args))
    x, y, x_error, y_error = _operands(args, value.dtype)
    spread = _size(x) * y_error + _size(y) * x_error + x_error * y_error
    residual, exact = _product_residual(x, y, value)
    own = torch.where(exact, residual.double().abs(), _half_ulp(value))
    return _result(value, spread + own)


def _div(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    value = func(*_map(_value, args))
    x, y, x_error, y_error = _operands(args, value.dtype)
    room = _size(y) - y_error
    quotient = _size(value) * (1 + 1e-6) + _tiny(value.dtype)
    spread = torch.where(room > 0, (x_error + quotient * y_error) / room, torch.inf)
    return _result(value, spread + _quotient_residual(x, y, value))


def _reciprocal(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    return _div(lambda one, x: func(x), (1.0, args[0]), kwargs)


def _reversed_div(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """A number over a tensor, in the two roundings that torch makes of it."""
    return args[0].reciprocal() * args[1]


def _sum_residual(x: Tensor, y: Tensor, total: Tensor) -> Tensor:
    """|x + y − fl(x + y)|, which the two-sum of Knuth gives exactly where it does not overflow itself."""
    part = total - x
    residual = ((x - (total - part)) + (y - part)).double().abs()
    return torch.where(torch.isfinite(residual), residual, _half_ulp(total))


def _product_residual(x: Tensor, y: Tensor, product: Tensor) -> tuple[Tensor, Tensor]:
    """xy − fl(xy), and where it is exact: all of float32 in float64, float64 by Dekker's splitting."""
    if product.dtype is torch.float32:
        residual = x.double() * y.double() - product.double()
        return residual, torch.isfinite(residual)
    (x_high, x_low), (y_high, y_low) = _halves(x), _halves(y)
    residual = ((x_high * y_high - product) + x_high * y_low + x_low * y_high) + x_low * y_low
    # Splitting overflows for the largest numbers, and the low halves underflow for the smallest.
    exact = torch.isfinite(residual) & (product.abs() > _SPLITTABLE)
    scaled = torch.isfinite(product) & (product.abs() >= torch.finfo(product.dtype).smallest_normal)
    scaled = scaled & (_is_power_of_two(x) | _is_power_of_two(y))
    return torch.where(scaled, 0.0, residual), exact | scaled


def _is_power_of_two(x: Tensor) -> Tensor:
    return torch.frexp(x)[0].abs() == 0.5


def _quotient_residual(x: Tensor, y: Tensor, quotient: Tensor) -> Tensor:
    """|x/y − fl(x/y)| = |x − fl(x/y)·y|/|y|: the product is within a unit of x, so the gap is exact."""
    product = quotient * y
    residual, exact = _product_residual(quotient, y, product)
    gap = (x.double() - product.double() - residual.double()).abs() / _size(y)
    return torch.where(exact, gap, _half_ulp(quotient))


def _halves(x: Tensor) -> tuple[Tensor, Tensor]:
    """Veltkamp's split of a float64 into two halves of 26 bits, which multiply exactly."""
    scaled = x * 134217729.0
    high = scaled - (scaled - x)
    return high, x - high


def _sum(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """Any order of n non-zero terms errs by at most (n − 2)·u·Σ|x| + u·|Σx|.

    Adding a zero is exact, and the last of the n − 1 additions rounds the sum itself.
    """
    x = args[0]
    value = func(_value(x), *args[1:], **kwargs)
    terms = func((_size(x) != 0).double(), *args[1:], **kwargs)
    own = _growth((terms - 2).clamp(min=0), value.dtype) * func(_size(x), *args[1:], **kwargs)
    own = own + torch.where(terms > 1, _half_ulp(value), 0.0)
    count = max(1, x.numel() // max(1, value.numel()))
    spread = func(_error(x), *args[1:], **kwargs) + own
    return _result(value, spread * (1 + 2 * count * _WIDE))


def _matmul(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """Any order of n non-zero products errs by at most (n − 1)·u·|x||y| + u·|xy|, fused or not.

    Each product and each addition but the last rounds something no larger than |x||y|; the last
    rounds the result.
    """
    x, y = args
    value = func(_value(x), _value(y))
    count = x.shape[-1]
    terms = func((_size(x) != 0).double(), (_size(y) != 0).double())
    own = _growth(terms - 1, value.dtype) * func(_size(x), _size(y))
    own = own + _half_ulp(value)
    spread = func(_size(x), _error(y)) + func(_error(x), _size(y) + _error(y)) + own
    return _result(value, spread * (1 + 4 * count * _WIDE) + count * _tiny(value.dtype))


def _softmax(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """p = w/T with w = e^{x − top}, where the computed top is exact as a number.

    Let each ŵ be w(1 + r), |r| ≤ ρ; T̂ the sum of the ŵ but for a factor within γ_{n−1}; and p̂ = ŵ/T̂
    but for a factor within 3u, by division or by the reciprocal. Then the ŵ sum to T but for a factor
    within b = (1 + γ)Σp̂ρ/((1 − max ρ)(1 − 3u)), and |p̂ − p| ≤ p̂(ρ + γ + b + 3u)/((1 − ρ)(1 − b)(1 − 3u)).
    """
    x, value = args[0], func(_value(args[0]), *args[1:], **kwargs)
    dim = args[1] if len(args) > 1 else kwargs["dim"]
    top, unit = _value(x).amax(dim, keepdim=True), _unit(value.dtype)
    growth = torch.expm1(_error(x) + _sum_residual(_value(x), -top, _value(x) - top))
    growth = growth + 2 * ULPS["exp"] * unit * (1 + growth)
    order = float(_growth(torch.tensor(x.shape[dim] - 1.0, dtype=torch.float64), value.dtype))
    room = (1 - growth.amax(dim, keepdim=True)).clamp(min=0) * (1 - 3 * unit)
    shift = (1 + order) * (_size(value) * growth).sum(dim, keepdim=True) / room
    room = room * (1 - shift).clamp(min=0)
    spread = _size(value) * (growth + order + shift + 3 * unit) / room
    spread = torch.where(room > 0, spread, torch.inf)
    return _result(value, spread * (1 + 4 * x.shape[dim] * _WIDE))


def _growth(operations: Tensor, dtype: torch.dtype) -> Tensor:
    """γ_n = nu/(1 − nu), the growth of relative error over n operations."""
    return operations * _unit(dtype) / (1 - operations * _unit(dtype))


def _maximum(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """Reductions amax and amin: an extremum moves by no more than the largest error."""
    value = func(_value(args[0]), *args[1:], **kwargs)
    return track(value, _error(args[0]).amax(*args[1:], **kwargs))


def _pairwise_maximum(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    errors = torch.maximum(*torch.broadcast_tensors(_error(args[0]), _error(args[1])))
    return track(func(_value(args[0]), _value(args[1])), errors)


def _vector_norm(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """The Euclidean norm: non-expansive, and computed as the root of a sum of squares that underflow."""
    x = args[0]
    value = func(_value(x), *args[1:], **kwargs)
    count = max(1, x.numel() // max(1, value.numel()))
    spread = func(_error(x), *args[1:], **kwargs) * (1 + 2 * count * _WIDE)
    lost = 2 * (count * torch.finfo(value.dtype).smallest_normal) ** 0.5
    return _result(value, spread + (count + 2) * _unit(value.dtype) * _size(value) + lost)


def _absolute(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """abs is non-expansive."""
    return track(func(_value(args[0])), _error(args[0]))


def _clamp(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """Clamping is non-expansive, and what surely lies beyond a limit has no error there."""
    x, error = _value(args[0]), _error(args[0])
    value = func(x, *args[1:], **kwargs)
    reach = (error + x.double().abs() * _WIDE) * _UPWARDS
    ends = (func(x.double() + side * reach, *args[1:], **kwargs) for side in (-1, 1))
    apart = torch.stack([(end - value.double()).abs() for end in ends]).amax(0)
    return track(value, torch.minimum(error, apart.nan_to_num(torch.inf)))


def _to(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    value = func(_value(args[0]), *args[1:], **kwargs)
    if _unit(value.dtype) <= _unit(args[0].dtype):
        return track(value, _error(args[0]))
    return _result(value, _error(args[0]) + _half_ulp(value))


# ---- elementary functions: propagated error plus the function's own budget of ulps ----


def _elementary(name: str, propagate: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable:
    """Rule of a function of one argument; `propagate(x̂, e, f̂)` bounds |f(x̂) − f(x)| for |x̂ − x| ≤ e.

    At zero each of them is exact, as the test of the budgets makes sure.
    """

    def rule(func: Callable, args: tuple, kwargs: dict) -> Tracked:
        argument = _value(args[0])
        value = func(argument)
        spread = propagate(argument.double(), _error(args[0]), value.double())
        return _result(value, spread + torch.where(argument == 0, 0.0, _budget(name, value)))

    return rule


def _budget(name: str, value: Tensor) -> Tensor:
    return ULPS[name] * _ulp(_size(value) * _NEXT_BINADE, value.dtype)


def _exp_spread(argument: Tensor, error: Tensor) -> Tensor:
    """e^x (e^e − 1) from the argument itself: the value may have underflowed, and e^e may overflow."""
    near = torch.exp(argument) * torch.expm1(error.clamp(max=1))
    return torch.where(error <= 1, near, torch.exp(argument + error)) * (1 + 1e-6)


def _log_spread(argument: Tensor, error: Tensor) -> Tensor:
    room = argument - error
    return torch.where(room > 0, torch.log1p(error / room), torch.inf)


def _hypot(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    value = func(_value(args[0]), _value(args[1]))
    return _result(value, _error(args[0]) + _error(args[1]) + _budget("hypot", value))


# e^x is within a factor e^e of e^x̂, and φk grows no faster than e^x does (φk' < φk).
_RULES: dict[str, Callable] = {
    "add": _add,
    "sub": _add,
    "rsub": _add,
    "mul": _mul,
    "div": _div,
    "rdiv": _reversed_div,
    "reciprocal": _reciprocal,
    "sum": _sum,
    "matmul": _matmul,
    "dot": _matmul,
    "softmax": _softmax,
    "amax": _maximum,
    "amin": _maximum,
    "maximum": _pairwise_maximum,
    "linalg_vector_norm": _vector_norm,
    "clamp": _clamp,
    "abs": _absolute,
    "to": _to,
    "hypot": _hypot,
    "exp": _elementary("exp", lambda x, e, f: _exp_spread(x, e)),
    "expm1": _elementary("expm1", lambda x, e, f: _exp_spread(x, e)),
    "log": _elementary("log", lambda x, e, f: _log_spread(x, e)),
    "log1p": _elementary("log1p", lambda x, e, f: _log_spread((1 + x) * (1 - 2 * _WIDE), e)),
    "sin": _elementary("sin", lambda x, e, f: e.clamp(max=2)),
    "cos": _elementary("cos", lambda x, e, f: e.clamp(max=2)),
    "tanh": _elementary("tanh", lambda x, e, f: e.clamp(max=2)),
    "phi1": _elementary("phi1", lambda x, e, f: f * (1 + 1e-6) * torch.expm1(e)),
    "phi2": _elementary("phi2", lambda x, e, f: f * (1 + 1e-6) * torch.expm1(e)),
    "sin_minus_angle": _elementary("sin_minus_angle", lambda x, e, f: 2 * e),
}

_KERNELS = (phi1, phi2, sin_minus_angle)  # dispatched by name through torch's function protocol
