"""A model over two devices as accelerate leaves it, without accelerate: the same attributes, the same moves.

`dispatch_model` rewrites the forward of the model, of every block and of every module below it: a partial of
a function of `accelerate.hooks`, the old forward beside it as `_old_forward`, the hook as `_hf_hook`. Inputs
are sent to the device of the module, what the model returns goes back to the device of its inputs.
"""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_map


@dataclass
class Hook:
    """What accelerate's `AlignDevicesHook` says of itself, as far as it is asked here."""

    execution_device: torch.device
    offload: bool = False
    returns: bool = False


def _new_forward(module: nn.Module, *args: Any, **kwargs: Any) -> Any:
    hook: Any = module._hf_hook
    came_from = next(x.device for x in (*args, *kwargs.values()) if isinstance(x, Tensor))
    output = module._old_forward(  # pyright: ignore[reportCallIssue]
        *_sent(args, hook.execution_device), **_sent(kwargs, hook.execution_device)
    )
    return _sent(output, came_from) if hook.returns else output


_new_forward.__module__ = "accelerate.hooks"


def add_hook(module: nn.Module, hook: Hook) -> None:
    """One module with a hook on its forward."""
    forward = module.forward
    wrapped = functools.update_wrapper(functools.partial(_new_forward, module), forward)
    vars(module).update(_old_forward=forward, _hf_hook=hook, forward=wrapped)


def dispatched(model: Any, places: Mapping[str, torch.device], main: torch.device) -> Any:
    """The model with hooks on the modules named in `places`, whose weights lie there, and on all below."""
    add_hook(model, Hook(main, returns=True))
    for name, place in places.items():
        for module in model.get_submodule(name).modules():
            if any(True for _ in module.parameters()):
                add_hook(module, Hook(place))
    model.hf_device_map = dict(places)
    return model


def _sent(value: Any, place: torch.device) -> Any:
    """Tensors on a device; a cache, which is no container that torch knows, stays as it is."""
    return tree_map(lambda x: x.to(place) if isinstance(x, Tensor) else x, value)
