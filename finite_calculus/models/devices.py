"""Weights on several devices (`device_map`): accelerate's hooks move what passes, and stay as they are.

What belongs to a layer (its cache, patch and offsets) lies on that layer's device; captures and all float64
algebra are on the CPU. What is offloaded is refused: its weights are nowhere between two passes.
Nothing here imports accelerate, whose hooks are known by where they come from.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


def moving_hook(module: nn.Module) -> Any | None:
    """accelerate's hook on a module's own forward; None without one, or where it covers a foreign forward."""
    forward = vars(module).get("forward")
    made_by = str(getattr(getattr(forward, "func", None), "__module__", ""))
    inner = getattr(vars(module).get("_old_forward"), "__func__", None)
    if not made_by.startswith("accelerate.") or inner is not type(module).forward:
        return None
    return vars(module).get("_hf_hook")


@contextmanager
def standing_in(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """A block in which a module's forward is another one; a hook that was on it is then put back."""
    before = vars(module).get("forward")
    module.forward = forward
    try:
        yield
    finally:
        vars(module).pop("forward", None)
        if before is not None:
            module.forward = before


def device_trouble(model: nn.Module) -> str:
    """Why the places of a model's weights cannot be worked with; empty if they can."""
    places = sorted({str(p.device) for p in model.parameters()})
    hooks = [part for module in model.modules() for part in _parts(moving_hook(module))]
    if "meta" in places or any(getattr(hook, "offload", False) for hook in hooks):
        return "offloaded"
    return "unmoved" if len(places) > 1 and not hooks else ""


def _parts(hook: Any | None) -> Iterator[Any]:
    """A hook, or those that it runs in turn."""
    if hook is not None:
        yield hook
        yield from getattr(hook, "hooks", ())
