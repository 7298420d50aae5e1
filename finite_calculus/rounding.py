"""Running error analysis: a tensor that carries a rigorous bound on its own rounding error.

`track(x)` marks exact inputs; every torch function the core uses then returns a `Tracked` tensor whose
`error` bounds |computed − exact| entry by entry, whatever order torch sums in. The core itself is
written once and knows nothing of this file. An operation without a rule raises: an unknown error is
never taken for zero. Bounds are held in float64 and pushed upwards, so that rounding cannot make them
too small. Linear solvers and singular values have no rule here. A plain operand counts as exact, so what
was computed from plain tensors beforehand must not meet tracked ones: the core refuses that mixture.
"""

import copy
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import torch
from torch import Tensor

from finite_calculus import _checks

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
        # In place or into `out`, the bound that a tensor carries would be left behind; a third argument
        # or a keyword (alpha, rounding_mode) makes another operation of an arithmetic one.
        in_place = func.__name__.endswith("_") and not func.__name__.endswith("__")
        in_place = in_place or kwargs.get("out") is not None
        if in_place or (name in _BINARY and (kwargs or len(args) > 2)):
            name = ""
        if name in _RULES:
            return _RULES[name](func, args, kwargs)
        if name in _STRUCTURAL or name == "get":
            return _structural(func, args, kwargs)
        if name in _DISCRETE:
            return func(*_map(_value, args), **_map(_value, kwargs))
        raise _no_rule(func)

    def __deepcopy__(self, memo: dict) -> "Tracked":
        return track(copy.deepcopy(_value(self), memo), copy.deepcopy(self.error, memo))

    def __reduce_ex__(self, protocol: Any) -> tuple:
        return track, (_value(self), self.error)


def track(tensor: Tensor, error: Tensor | float | None = None) -> Tracked:
    """Mark a tensor as exact, or as known to within `error`, for the running error analysis.

    A tensor that is tracked already keeps the error that it has, to which `error` is added.
    """
    _checks.floating("tensor", tensor)
    known = _error(tensor)
    return _wrap(_value(tensor), known if error is None else known + _require_error(error, tensor))


def together(*tensors: Tensor) -> tuple[Tensor, ...]:
    """The tensors, all of them tracked if one is: what is computed from a plain one rounds as well."""
    if not any(isinstance(tensor, Tracked) for tensor in tensors):
        return tensors
    return tuple(track(tensor) for tensor in tensors)


def constant(number: float, lost: Fraction, like: Tensor) -> Tensor | float:
    """A number that differs by `lost` from the one that is meant; tracked if `like` is."""
    if not isinstance(like, Tracked):
        return number
    entering = torch.tensor(number, dtype=like.dtype, device=like.device)
    gap = abs(Fraction(entering.item()) - Fraction(number)) + lost
    return track(entering, float(gap) * _UPWARDS)


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


def _require_error(error: Any, tensor: Tensor) -> Tensor:
    """Errors in float64 and in the shape of the tensor; raise if they are no bounds."""
    bounds = torch.as_tensor(error, dtype=torch.float64, device=tensor.device)
    if not bool((bounds >= 0).all()):
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


def _wrap(value: Tensor, error: Tensor) -> Tracked:
    """A tracked tensor, unless torch is set to round or flush in ways that no rule knows."""
    _checks.floating("tensor", value)
    _checks.subnormal_numbers()
    _checks.full_products(value)
    tracked = Tensor._make_subclass(Tracked, value)
    tracked.error = error
    return tracked


def _no_rule(func: Callable) -> TypeError:
    return TypeError(
        f"torch function {func.__name__!r} has no error rule: a bound cannot be derived through "
        f"it. Use an operation of finite_calculus.rounding, or add its rule there."
    )


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
    return _wrap(value, torch.where(bound.isnan(), torch.inf, bound))


# ---- structure: no arithmetic, so the error goes where the value goes ----

# fmt: off
_STRUCTURAL = frozenset((
    "getitem", "reshape", "view", "expand", "unsqueeze", "squeeze", "flatten", "movedim", "transpose",
    "take_along_dim", "gather", "stack", "cat", "broadcast_to", "clone", "contiguous", "flip",
    "index_select", "narrow", "unbind", "split", "detach", "neg", "zeros_like", "ones_like",
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
        return _wrap(values, torch.zeros_like(values, dtype=torch.float64))
    if any(isinstance(argument, torch.dtype) for argument in args):
        raise _no_rule(func)  # a view of the same bits as other numbers
    errors = func(*_map(_as_error, args), **_map(_as_error, kwargs))
    if _name(func) == "neg":
        errors = -errors
    return _pair(values, errors)


def _as_error(x: Any) -> Any:
    """The error in place of a floating operand; indices, masks and sizes stay as they are."""
    return _error(x) if isinstance(x, Tensor) and x.is_floating_point() else x


def _where(func: Callable, args: tuple, kwargs: dict) -> Any:
    """A choice has the error of what is chosen, with what that loses in the type of the result."""
    value = func(*_map(_value, args))

    def error(x: Any) -> Any:
        chooses = isinstance(x, Tensor) and x.dtype is torch.bool
        return x if chooses else _entering(x, value.dtype)[1]

    return _wrap(value, func(*(error(argument) for argument in args)))


def _floating(values: Any) -> bool:
    first = values[0] if isinstance(values, tuple) and values else values
    return isinstance(first, Tensor) and first.is_floating_point()


def _pair(values: Any, errors: Any) -> Any:
    if isinstance(values, tuple):
        return tuple(_pair(v, e) for v, e in zip(values, errors, strict=True))
    return _wrap(values, errors)


# ---- arithmetic: u is the unit roundoff of the result's dtype ----


def _operands(args: tuple, dtype: torch.dtype) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Values and errors of two operands in the type of the result."""
    (x, x_error), (y, y_error) = _entering(args[0], dtype), _entering(args[1], dtype)
    return x, y, x_error, y_error


def _entering(operand: Any, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """An operand as torch rounds it to the type of the result, and its error with that rounding.

    Python numbers are rounded, and so are integers and scalar tensors, which do not widen the result.
    """
    value = torch.as_tensor(_value(operand), dtype=dtype)
    if isinstance(operand, Tensor):
        if operand.dtype == dtype:
            return value, _error(operand)
        wide = _value(operand).double()
        lost = (value.double() - wide).abs()
        # Beyond 2^53 an integer is no float64 either.
        lost = lost + torch.where(wide.abs() >= 1 / _WIDE, wide.abs() * _WIDE, 0.0)
        return value, _error(operand) + lost
    return value, torch.tensor(_number_lost(operand, value.item()), dtype=torch.float64)


def _number_lost(number: float | int, entering: float) -> float:
    if number == entering:
        return 0.0
    if not (math.isfinite(number) and math.isfinite(entering)):
        return math.inf
    return float(abs(Fraction(entering) - Fraction(number)))


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
    """|x + y − fl(x + y)|, which the two-sum of Knuth gives exactly where it does not overflow itself.

    An infinite term absorbs the other.
    """
    part = total - x
    residual = ((x - (total - part)) + (y - part)).double().abs()
    residual = torch.where(torch.isfinite(residual), residual, _half_ulp(total))
    return torch.where(torch.isinf(x) != torch.isinf(y), 0.0, residual)


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
    value = func(_value(args[0]), *args[1:], **kwargs)
    x, args, kwargs = _converted(args, kwargs)
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
    value = func(_value(args[0]), *args[1:], **kwargs)
    x, args, kwargs = _converted(args, kwargs)
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
    """γ_n = nu/(1 − nu), the growth of relative error over n operations; from n = 1/u on, unknown."""
    roundings = operations * _unit(dtype)
    return torch.where(roundings < 1, roundings / (1 - roundings), torch.inf)


def _converted(args: tuple, kwargs: dict) -> tuple[Tensor, tuple, dict]:
    """The tensor to be summed in the type `dtype`, if there is one, and the other arguments."""
    named = {name: argument for name, argument in kwargs.items() if name != "dtype"}
    placed = tuple(argument for argument in args if not isinstance(argument, torch.dtype))
    dtypes = [x for x in (*args, kwargs.get("dtype")) if isinstance(x, torch.dtype)]
    return args[0].to(dtypes[0]) if dtypes else args[0], placed, named


def _maximum(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """Reductions amax and amin: an extremum moves by no more than the largest error."""
    value = func(_value(args[0]), *args[1:], **kwargs)
    return _wrap(value, _error(args[0]).amax(*args[1:], **kwargs))


def _pairwise_maximum(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    value = func(_value(args[0]), _value(args[1]))
    *_, x_error, y_error = _operands(args, value.dtype)
    return _wrap(value, torch.maximum(x_error, y_error))


def _vector_norm(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """The Euclidean norm: non-expansive, and computed as the root of a sum of squares that underflow."""
    order = args[1:2] or (kwargs.get("ord", 2),)
    if order[0] != 2:
        raise _no_rule(func)
    value = func(_value(args[0]), *args[1:], **kwargs)
    x, args, kwargs = _converted(args, kwargs)
    count = max(1, x.numel() // max(1, value.numel()))
    spread = func(_error(x), *args[1:], **kwargs) * (1 + 2 * count * _WIDE)
    lost = 2 * (count * torch.finfo(value.dtype).smallest_normal) ** 0.5
    # Half of γ_n and two roundings; γ_n is within 2nu as long as nu does not exceed one half.
    own = (count + 2) * _unit(value.dtype)
    return _result(value, spread + (own if own <= 0.5 else math.inf) * _size(value) + lost)


def _absolute(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """abs is non-expansive."""
    return _wrap(func(_value(args[0])), _error(args[0]))


def _clamp(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    """Clamping moves by no more than the tensor or a limit does.

    What surely lies beyond a limit moves with that alone.
    """
    limits = [limit for limit in (*args[1:], *kwargs.values()) if limit is not None]
    error = _error(args[0])
    (x, *placed), named = _map(_value, args), _map(_value, kwargs)
    value = func(x, *placed, **named)
    moved = sum(_entering(limit, value.dtype)[1] for limit in limits)
    reach = (error + x.double().abs() * _WIDE) * _UPWARDS
    ends = (func(x.double() + side * reach, *placed, **named) for side in (-1, 1))
    apart = torch.stack([(end - value.double()).abs() for end in ends]).amax(0) * _UPWARDS
    apart = torch.where(apart.isnan(), torch.inf, apart)
    return _wrap(value, torch.minimum(error, apart) + moved)


def _to(func: Callable, args: tuple, kwargs: dict) -> Tensor:
    value = func(*_map(_value, args), **_map(_value, kwargs))
    if not (value.is_floating_point() or value.is_complex()):
        return value
    if _unit(value.dtype) <= _unit(args[0].dtype):
        return _wrap(value, _error(args[0]).to(value.device))
    return _result(value, _error(args[0]).to(value.device) + _half_ulp(value))


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


def _lag_spread(argument: Tensor, error: Tensor) -> Tensor:
    """e·max|cos θ − 1| over the angles θ in question: sin θ − θ is flat where θ is small."""
    reach = argument.abs() + error
    return error * (reach * reach / 2).clamp(max=2)


def _hypot(func: Callable, args: tuple, kwargs: dict) -> Tracked:
    value = func(_value(args[0]), _value(args[1]))
    *_, x_error, y_error = _operands(args, value.dtype)
    return _result(value, x_error + y_error + _budget("hypot", value))


# e^x is within a factor e^e of e^x̂, and φk grows no faster than e^x does (φk' < φk); unlike e^x it does not
# underflow. The functions of the core are found by their names, as torch's protocol hands them on.
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
    "where": _where,
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
    "sin_minus_angle": _elementary("sin_minus_angle", lambda x, e, f: _lag_spread(x, e)),
}
