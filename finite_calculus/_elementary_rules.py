"""Error rules of elementary functions: the propagated error and the function's own budget of last places."""

from collections.abc import Callable

import torch
from torch import Tensor

from finite_calculus._arithmetic_rules import operands
from finite_calculus._tracked import WIDE, Tracked, bounded, error_in, plain, size_of, ulp_of

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


def _elementary(name: str, propagate: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Callable:
    """Rule of a function of one argument; `propagate(x̂, e, f̂)` bounds |f(x̂) − f(x)| for |x̂ − x| ≤ e.

    At zero each of them is exact, as the test of the budgets makes sure.
    """

    def rule(func: Callable, args: tuple, kwargs: dict) -> Tracked:
        argument = plain(args[0])
        value = func(argument)
        spread = propagate(argument.double(), error_in(args[0]), value.double())
        return bounded(value, spread + torch.where(argument == 0, 0.0, _budget(name, value)))

    return rule


def _budget(name: str, value: Tensor) -> Tensor:
    return ULPS[name] * ulp_of(size_of(value) * _NEXT_BINADE, value.dtype)


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
    value = func(plain(args[0]), plain(args[1]))
    *_, x_error, y_error = operands(args, value.dtype)
    return bounded(value, x_error + y_error + _budget("hypot", value))


# e^x is within a factor e^e of e^x̂, and φk grows no faster than e^x does (φk' < φk); unlike e^x it does not
# underflow. The functions of the core are found by their names, as torch's protocol hands them on.
RULES: dict[str, Callable] = {
    "hypot": _hypot,
    "exp": _elementary("exp", lambda x, e, f: _exp_spread(x, e)),
    "expm1": _elementary("expm1", lambda x, e, f: _exp_spread(x, e)),
    "log": _elementary("log", lambda x, e, f: _log_spread(x, e)),
    "log1p": _elementary("log1p", lambda x, e, f: _log_spread((1 + x) * (1 - 2 * WIDE), e)),
    "sin": _elementary("sin", lambda x, e, f: e.clamp(max=2)),
    "cos": _elementary("cos", lambda x, e, f: e.clamp(max=2)),
    "tanh": _elementary("tanh", lambda x, e, f: e.clamp(max=2)),
    "phi1": _elementary("phi1", lambda x, e, f: f * (1 + 1e-6) * torch.expm1(e)),
    "phi2": _elementary("phi2", lambda x, e, f: f * (1 + 1e-6) * torch.expm1(e)),
    "sin_minus_angle": _elementary("sin_minus_angle", lambda x, e, f: _lag_spread(x, e)),
}
