"""Tensors inside torch's transforms: whether their numbers may be read, and what is refused if not.

Under torch.func.vmap one tensor stands for a whole batch, torch.compile traces before there are numbers,
and meta and fake tensors never have any. Every check of values and every choice between formulas asks here:
the check is then left out, and the choice falls on the formula that is right for all values. What cannot do
without numbers says so.
"""

import math

import torch
from torch import Tensor
from torch._C import _len_torch_dispatch_stack
from torch._C._functorch import (
    get_unwrapped,
    is_batchedtensor,
    is_functorch_wrapped_tensor,
    is_gradtrackingtensor,
    peek_interpreter_stack,
)
from torch._subclasses.fake_tensor import FakeTensor
from torch.autograd import forward_ad


def readable(tensor: Tensor) -> bool:
    """Whether the numbers of a tensor may be read."""
    if torch.compiler.is_compiling():
        return False
    # Every check asks this: outside a transform it must cost next to nothing.
    if peek_interpreter_stack() is not None:
        while is_functorch_wrapped_tensor(tensor):
            if is_batchedtensor(tensor):
                return False
            tensor = get_unwrapped(tensor)
    return not (tensor.is_meta or _fake(tensor))


def transforming() -> bool:
    """Whether torch is inside a transform, so that what it computes may not outlive that."""
    return (
        torch.compiler.is_compiling()
        or peek_interpreter_stack() is not None
        or _len_torch_dispatch_stack() > 0
    )


def known(condition: Tensor) -> bool:
    """Whether a condition is known to hold; False also where its value may not be read."""
    return readable(condition) and bool(condition)


def refuted(condition: Tensor) -> bool:
    """Whether a condition is known not to hold; False also where its value may not be read."""
    return readable(condition) and not bool(condition)


def number(tensor: Tensor) -> float:
    """The number in a tensor of one entry; NaN, which passes no comparison, where it may not be read."""
    return float(tensor) if readable(tensor) else math.nan


def require_numbers(caller: str, reason: str, **tensors: Tensor) -> None:
    """Refuse tensors whose numbers a function has to read; `reason` says what for."""
    for name, tensor in tensors.items():
        if not readable(tensor):
            raise RuntimeError(
                f"`{caller}` must read the numbers of `{name}`: {reason}; got a tensor {_place(tensor)}. "
                f"Call it on ordinary tensors, outside the transform and once for each row of a batch."
            )


def require_constant(tensor: Tensor) -> None:
    """Refuse to follow the rounding of a tensor where that would lose a derivative, or cannot be done."""
    if torch.compiler.is_compiling() or _fake(tensor):
        raise RuntimeError(
            f"Rounding errors must be tracked on ordinary tensors; got a tensor {_place(tensor)}. Track, "
            f"certify and bound outside torch.compile; for shapes alone use device='meta'."
        )
    if _differentiated(tensor):
        raise RuntimeError(
            "Rounding errors must be tracked on constants, since bounds have no derivative; got a tensor "
            "that torch.func differentiates, whose derivative would be lost as zero. Pass tensor.detach(), "
            "or track, certify and bound outside torch.func.grad, jacrev and jvp."
        )


def require_no_bound_inside(name: str, tensor: Tensor) -> None:
    """Refuse a tensor that was tracked outside a transform: torch's wrapper has hidden its error."""
    if torch.compiler.is_compiling() or peek_interpreter_stack() is None:
        return
    while is_functorch_wrapped_tensor(tensor):
        tensor = get_unwrapped(tensor)
        if hasattr(tensor, "error"):
            raise TypeError(
                f"`{name}` must be tracked inside a function that torch.func transforms; got one that was "
                f"tracked outside, whose error the transform does not see. Pass value_of(tensor), and "
                f"error_of(tensor) beside it, and call track on them inside."
            )


def _differentiated(tensor: Tensor) -> bool:
    """Whether some level of torch.func takes derivatives with respect to a tensor."""
    while is_functorch_wrapped_tensor(tensor):
        if is_gradtrackingtensor(tensor) and _moves(tensor):
            return True
        tensor = get_unwrapped(tensor)
    return False


def _moves(tensor: Tensor) -> bool:
    return tensor.requires_grad or forward_ad.unpack_dual(tensor).tangent is not None


def _fake(tensor: Tensor) -> bool:
    return type(tensor) is not Tensor and isinstance(tensor, FakeTensor)


def _place(tensor: Tensor) -> str:
    if torch.compiler.is_compiling():
        return "inside torch.compile"
    if tensor.is_meta:
        return "on the device 'meta'"
    if _fake(tensor):
        return "of a FakeTensorMode"
    return "inside torch.func.vmap"
