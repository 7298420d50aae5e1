"""What a model computes in: the precision of its tensors, of its sums, and of what is float32 in every model.

Tensors between operators have the model's precision. A product of matrices is summed in float32 at least
(`sums`) and rounded once more where it is stored with fewer digits; whether a kernel does so is probed by
the preflight (`native_checks.sums`). Softmax, norms and rotary angles are float32 inside, whatever the model.
Everything that depends on a precision asks here; algebra on what was captured is float64 throughout.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Precision:
    """One precision of a model: its dtype and the dtype in which its products of matrices are summed."""

    dtype: torch.dtype
    sums: torch.dtype

    @property
    def name(self) -> str:
        """As in "bfloat16", also what `--dtype` takes."""
        return str(self.dtype).removeprefix("torch.")

    @cached_property
    def unit(self) -> float:
        """Half a last place of 1."""
        return torch.finfo(self.dtype).eps / 2

    @property
    def tiny(self) -> float:
        """The smallest normal number."""
        return torch.finfo(self.dtype).smallest_normal

    @property
    def lowest(self) -> float:
        """The lowest finite number: a score that takes a key out of a head."""
        return torch.finfo(self.dtype).min

    @property
    def removing(self) -> float:
        """A bias this low or lower does so too: the weight is exactly zero."""
        return self.lowest / 2

    @property
    def half(self) -> bool:
        """Whether sums are rounded once more where they are stored: bfloat16 and float16."""
        return self.dtype != self.sums

    @property
    def summing(self) -> "Precision":
        """The precision of the sums: itself, or float32 where numbers are stored with fewer digits."""
        return FLOAT32 if self.half else self

    @property
    def coarsest(self) -> "Precision":
        """The coarsest of this one and of float32, in which softmax, norms and angles are computed."""
        return FLOAT32 if self is FLOAT64 else self

    def round(self, tensor: Tensor) -> Tensor:
        """A captured tensor as the model can hold it; captures of half precision are kept in float32."""
        return tensor.to(self.dtype).to(tensor.dtype) if self.half else tensor


FLOAT32 = Precision(torch.float32, torch.float32)
FLOAT64 = Precision(torch.float64, torch.float64)
FLOAT16 = Precision(torch.float16, torch.float32)
BFLOAT16 = Precision(torch.bfloat16, torch.float32)
PRECISIONS = {each.name: each for each in (FLOAT32, BFLOAT16, FLOAT16, FLOAT64)}


def precision_of(dtype: torch.dtype | str) -> Precision:
    """The precision of a dtype that models are run in, or of its name."""
    name = str(dtype).removeprefix("torch.")
    if name not in PRECISIONS:
        raise ValueError(f"`dtype` must be one of {', '.join(PRECISIONS)}; got {name!r}.")
    return PRECISIONS[name]


Model = TypeVar("Model", bound=nn.Module)


def cast_weights(model: Model, dtype: torch.dtype) -> Model:
    """The model with its weights in a dtype, in place; buffers, such as rotary frequencies, are left alone.

    `model.to(dtype)` would round the frequencies too, which transformers keeps in float32.
    """
    for parameter in model.parameters():
        if parameter.is_floating_point():
            parameter.data = parameter.data.to(dtype)
    return model


def widened(tensor: Tensor) -> Tensor:
    """Half precision as float32, which changes no number; other tensors as they are."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


@contextmanager
def computed_in_float32(model: nn.Module) -> Iterator[None]:
    """A block in which half precision weights compute in float32, cast one module at a time.

    What a module computes from is then float32 too, from the embedding on.
    """
    kept: dict[nn.Parameter, Tensor] = {}

    def before(module: nn.Module, args: object) -> None:
        for parameter in module.parameters(recurse=False):
            if parameter.dtype in (torch.float16, torch.bfloat16):
                kept[parameter] = parameter.data
                parameter.data = parameter.data.float()

    def after(module: nn.Module, args: object, output: object) -> None:
        for parameter in module.parameters(recurse=False):
            if parameter in kept:
                parameter.data = kept.pop(parameter)

    with ExitStack() as stack:
        stack.callback(lambda: [setattr(p, "data", data) for p, data in kept.items()])
        for module in model.modules():
            own = module.parameters(recurse=False)
            if any(each.dtype in (torch.float16, torch.bfloat16) for each in own):
                stack.callback(module.register_forward_pre_hook(before, prepend=True).remove)
                stack.callback(module.register_forward_hook(after).remove)
        yield
