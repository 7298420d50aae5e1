"""Results that an object computes at their first use and keeps.

Unlike functools.cached_property this keeps nothing that a transform of torch made, which would be wrong
outside of it: a fake tensor, a level of torch.func, a graph that is being traced. What was computed
without gradients does not serve where they are wanted.
"""

from collections.abc import Callable
from typing import TypeVar

import torch

from finite_calculus._transforms import transforming

T = TypeVar("T")


def computed_once(owner: object, compute: Callable[[], T]) -> T:
    """What a method of `owner` computes, kept for each mode of autograd."""
    # Dynamo must not meet the store: it would guard on what is in there.
    if torch.compiler.is_compiling():
        return compute()
    mode = (torch.is_grad_enabled(), torch.is_inference_mode_enabled())
    store, name = vars(owner), f"{compute.__name__} {mode}"
    if name in store:
        return store[name]
    result = compute()
    if not transforming():
        store[name] = result
    return result
