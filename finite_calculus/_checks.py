"""Refusal of bad input: each check names the argument, what is required, what came and what to do."""

import math
from collections.abc import Sequence

import torch
from torch import Tensor
from torch.overrides import has_torch_function_unary

from finite_calculus._transforms import known, number, refuted, require_no_bound_inside

_DTYPES = (torch.float64, torch.float32)
# Equal to zero where the processor flushes subnormal numbers.
_SUBNORMAL = 5e-324


def floating(name: str, tensor: Tensor) -> None:
    """Require a float32 or float64 tensor."""
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"`{name}` must be a torch.Tensor; got {type(tensor).__name__}. "
            f"Convert it with torch.as_tensor(..., dtype=torch.float64)."
        )
    require_no_bound_inside(name, tensor)
    if tensor.dtype not in _DTYPES:
        raise TypeError(
            f"`{name}` must be float64 or float32; got {tensor.dtype}. "
            f"Half precision has no derived error bound here: convert with .float() or .double()."
        )
    no_autocast(tensor)


def no_autocast(tensor: Tensor) -> None:
    """Require that autocast takes no product of this type to half precision; it leaves float64 alone."""
    if tensor.dtype is torch.float32 and _autocast(tensor.device.type):
        raise RuntimeError(
            f"Autocast must be off for float32: it would take products to half precision; it is on for "
            f"{tensor.device.type!r}. Call inside `with torch.autocast({tensor.device.type!r}, "
            f"enabled=False):`, or pass float64."
        )


def subnormal_numbers() -> None:
    """Require subnormal numbers: every error bound counts on gradual underflow."""
    if _SUBNORMAL * 1.0 == 0.0:
        raise RuntimeError(
            "Subnormal numbers must be kept: with them flushed to zero no error bound holds; they are "
            "flushed. Call torch.set_flush_denormal(False) first."
        )


def full_products(tensor: Tensor) -> None:
    """Require that products of float32 matrices are float32 products."""
    if tensor.dtype is torch.float32 and torch.get_float32_matmul_precision() != "highest":
        raise RuntimeError(
            f"Matrix products of float32 must have full precision for an error bound; got "
            f"{torch.get_float32_matmul_precision()!r}. Call "
            f"torch.set_float32_matmul_precision('highest') first, or pass float64."
        )


def one_device(**tensors: Tensor) -> None:
    """Require one device: torch reads an index from another one as garbage where one of them is meta."""
    devices = [tensor.device for tensor in tensors.values()]
    if devices.count(devices[0]) < len(devices):
        listed = ", ".join(f"`{name}` is on {str(x.device)!r}" for name, x in tensors.items())
        raise ValueError(
            f"All tensors must be on one device; {listed}. Move them with .to(device)."
        )


def same_dtype(**tensors: Tensor) -> None:
    """Require one floating dtype and one device for all arguments, so that none is promoted unseen.

    Also that either all of them are tracked or none: plain ones would be computed with outside the
    error analysis, and the bound on the result would lack their rounding.
    """
    for name, tensor in tensors.items():
        floating(name, tensor)
    dtypes = {name: tensor.dtype for name, tensor in tensors.items()}
    if len(set(dtypes.values())) > 1:
        listed = ", ".join(f"`{name}` is {dtype}" for name, dtype in dtypes.items())
        raise TypeError(
            f"All tensors must share one dtype; {listed}. Convert them to one of these."
        )
    one_device(**tensors)
    plain = [name for name, tensor in tensors.items() if not has_torch_function_unary(tensor)]
    if plain and len(plain) < len(tensors):
        tracked = ", ".join(f"`{name}`" for name in tensors if name not in plain)
        listed = ", ".join(f"`{name}`" for name in plain)
        raise TypeError(
            f"Tensors must all be tracked or all be plain; {tracked} tracked, {listed} plain. What is "
            f"computed from plain ones rounds unseen: pass track(...) of them too, or of what they "
            f"were made from, as in freeze(track(scores), track(values))."
        )


def finite(
    name: str,
    tensor: Tensor,
    *,
    attended: Tensor | None = None,
    advice: str = "Pass excluded keys through `mask`, not as infinite scores.",
) -> None:
    """Require finite entries, at the attended keys if a mask is given, with advice for that case."""
    # |x| < inf is isfinite in half of the operations; tracked tensors have their own.
    tracked = has_torch_function_unary(tensor)
    fine = torch.isfinite(tensor) if tracked else tensor.abs() < math.inf
    if attended is not None:
        fine = fine | ~attended
    if refuted(fine.all()):
        where = " at the attended keys"
        if attended is None:
            where, advice = "", "Remove or replace them: nothing downstream of them is defined."
        raise ValueError(
            f"`{name}` must be finite{where}; got {int((~fine).sum())} NaN or infinite of "
            f"{fine.numel()} entries. {advice}"
        )


def last_axes(name: str, tensor: Tensor, expected: Sequence[int | None], words: str) -> None:
    """Require the trailing shape `expected` (None: any length), described by `words`."""
    shape = tuple(tensor.shape)
    tail = shape[len(shape) - len(expected) :] if len(shape) >= len(expected) else None
    if tail is None or any(e is not None and e != t for e, t in zip(expected, tail, strict=True)):
        wanted = ", ".join("*" if e is None else str(e) for e in expected)
        raise ValueError(
            f"`{name}` must have trailing shape ({wanted}), that is {words}; got {shape}. "
            f"Leading dimensions are batch dimensions: move the named axes last."
        )


def exact_axes(name: str, tensor: Tensor, expected: Sequence[int | None], words: str) -> None:
    """Require the whole shape `expected` (None: any length), described by `words`: no batch."""
    shape = tuple(tensor.shape)
    if len(shape) != len(expected) or any(
        e is not None and e != s for e, s in zip(expected, shape, strict=True)
    ):
        wanted = ", ".join("*" if e is None else str(e) for e in expected)
        raise ValueError(
            f"`{name}` must have shape ({wanted}), that is {words}; got {shape}. "
            f"Nothing is broadcast here: reshape, or loop over batch dimensions."
        )


def mask_over(name: str, mask: Tensor, keys: int) -> None:
    """Require a boolean mask over the keys that leaves an attended key in every row."""
    if mask.dtype != torch.bool:
        raise TypeError(
            f"`{name}` must be boolean, True at attended keys; got {mask.dtype}. "
            f"Turn an additive mask into one with mask == 0."
        )
    last_axes(name, mask, (keys,), "(..., keys)")
    empty = ~mask.any(-1)
    if known(empty.any()):
        raise ValueError(
            f"`{name}` must leave at least one attended key in every row; got {int(empty.sum())} empty rows. "
            f"Drop those queries: their readout is undefined."
        )


def broadcastable(name: str, shape: Sequence[int], batch: Sequence[int]) -> None:
    """Require that the leading shape `shape` of an argument broadcasts with `batch`."""
    try:
        torch.broadcast_shapes(tuple(shape), tuple(batch))
    except RuntimeError:
        raise ValueError(
            f"The batch dimensions {tuple(shape)} of `{name}` must broadcast with the readout's "
            f"{tuple(batch)}. Insert axes of length 1 where the argument is shared."
        ) from None


def key_indices(name: str, indices: Tensor, keys: int) -> None:
    """Require integer key indices in [0, keys)."""
    # torch reads uint8 as a mask, and the other narrow integers not at all.
    if indices.dtype not in (torch.int64, torch.int32):
        raise TypeError(
            f"`{name}` must hold key indices of type int64 or int32; got {indices.dtype}. "
            f"Turn a mask into indices with mask.nonzero()."
        )
    if not indices.numel():
        return
    lowest, highest = map(number, torch.aminmax(indices))
    if lowest < 0 or highest >= keys:
        raise ValueError(
            f"`{name}` must lie in 0..{keys - 1}; got values from {lowest:.0f} "
            f"to {highest:.0f}. Negative indices are not wrapped."
        )


def _autocast(device: str) -> bool:
    return torch.amp.is_autocast_available(device) and torch.is_autocast_enabled(device)
