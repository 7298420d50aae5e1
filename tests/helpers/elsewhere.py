"""Tensors that are computed on the CPU and say that they lie on another device, with which they do not mix.

No accelerator is here. `Elsewhere` wraps a tensor and reports the device `meta`, which torch knows without
hardware; `elsewhere()` is a block in which what is made on that device is wrapped. An operation on tensors of
both devices raises, as it would with a real one; numbers of no dimension may come from the CPU, as there.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

DEVICE = torch.device("meta")
# Copies between devices are what these are for.
_INDEXED = (
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put.default,
    torch.ops.aten.index_put_.default,
)
_COPIES = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)


class Elsewhere(Tensor):
    """A tensor of the other device; `inner` holds its numbers."""

    inner: Tensor

    @staticmethod
    def __new__(cls, inner: Tensor) -> "Elsewhere":
        made = Tensor._make_wrapper_subclass(
            cls, inner.size(), strides=inner.stride(), dtype=inner.dtype, device=DEVICE
        )
        made.inner = inner
        return made

    def __repr__(self, **_: Any) -> str:
        return f"Elsewhere({self.inner!r})"

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        return run(function, args, kwargs or {})


class _Devices(TorchDispatchMode):
    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        return run(function, args, kwargs or {})


class _FromNumbers(TorchFunctionMode):
    """What copies numbers before an operation is dispatched: done on the CPU, then moved."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None):
        kwargs = dict(kwargs or {})
        if function is torch.tensor and kwargs.get("device") is not None:
            device = kwargs.pop("device")
            return function(*args, **kwargs).to(device)
        if function in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[0], Elsewhere):
            args = (args[0], _index(args[1]), *args[2:])
        if function is Tensor.tolist and isinstance(args[0], Elsewhere):
            return args[0].inner.tolist()
        return function(*args, **kwargs)


def _index(index: Any) -> Any:
    """An index with its lists as tensors, which torch would make where no numbers are."""
    if isinstance(index, tuple):
        return tuple(map(_index, index))
    return torch.tensor(index) if isinstance(index, list) else index


def run(function: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """One operation on the numbers, its results on the device of its tensors, or on the one that it names."""
    tensors: list[Tensor] = []
    # torch takes indices from the CPU on any device.
    of_one = (args[0], *args[2:]) if function in _INDEXED else args
    tree_map(lambda x: tensors.append(x) if isinstance(x, Tensor) else None, (of_one, kwargs))
    if any(not isinstance(x, Elsewhere) and x.device == DEVICE for x in tensors):
        raise RuntimeError(f"{function} got a tensor without numbers: it was made unseen.")
    there = [isinstance(x, Elsewhere) for x in tensors]
    here = [not away and x.ndim > 0 for away, x in zip(there, tensors, strict=True)]
    if any(there) and any(here) and function not in _COPIES:
        raise RuntimeError(f"{function} must have its tensors on one device; it has two.")
    asked = kwargs.get("device")
    away = any(there) if asked is None else torch.device(asked) == DEVICE
    if asked is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    inner_args, inner_kwargs = tree_map(
        lambda x: x.inner if isinstance(x, Elsewhere) else x, (args, kwargs)
    )
    result = function(*inner_args, **inner_kwargs)
    if function is torch.ops.aten.copy_.default or function._schema.name.endswith("_"):
        return args[0]
    known = {id(x.inner): x for x in tensors if isinstance(x, Elsewhere)}
    return tree_map(
        lambda x: known.get(id(x), Elsewhere(x)) if away and isinstance(x, Tensor) else x, result
    )


@contextmanager
def elsewhere() -> Iterator[None]:
    """A block in which the other device is there."""
    with _Devices(), _FromNumbers():
        yield


def moved(model: nn.Module) -> nn.Module:
    """A model with its parameters and buffers on the other device, in place."""
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            setattr(module, name, nn.Parameter(Elsewhere(parameter.data), requires_grad=False))
        for name, buffer in list(module.named_buffers(recurse=False)):
            module._buffers[name] = Elsewhere(buffer)
    return model
