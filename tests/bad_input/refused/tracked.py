"""Operations of torch that have no error rule, errors that are no bounds, settings that void every bound."""

from collections.abc import Callable

import torch

import finite_calculus as fc
from tests.bad_input.refusal import TYPE, VALUE, Refusal
from tests.helpers.tensors import draw

TRACKED = [
    Refusal(
        f"a tracked {name}",
        lambda call=call: call(fc.track(draw(4, 4))),
        TYPE,
        f"torch function {name!r} … no error rule",
    )
    for name, call in {
        "fft_fft": torch.fft.fft,
        "linalg_svd": torch.linalg.svd,
        "linalg_inv": torch.linalg.inv,
        "prod": torch.prod,
        "mean": torch.mean,
        "cumsum": lambda x: x.cumsum(0),
        "pow": lambda x: x.pow(2),
        "sigmoid": torch.sigmoid,
        "log_softmax": lambda x: x.log_softmax(-1),
        "einsum": lambda x: torch.einsum("ij,jk->ik", x, x),
        # These have near relatives with a rule: amax, and sums, products, quotients of two tensors.
        "max": lambda x: x.max(),
        "min": lambda x: x.min(-1),
        "add_": lambda x: x.add_(1.0),
        "exp_": lambda x: x.exp_(),
        "add": lambda x: torch.add(x, x, alpha=2),
        "sub": lambda x: torch.sub(x, x, alpha=2),
        "div": lambda x: torch.div(x, x, rounding_mode="floor"),
        # The same bits as other numbers, and a norm that is not the Euclidean one.
        "view": lambda x: x.view(torch.float32),
        "linalg_vector_norm": lambda x: torch.linalg.vector_norm(x, ord=1),
    }.items()
]


def _flushed() -> None:
    torch.set_flush_denormal(True)
    try:
        fc.track(draw(2))
    finally:
        torch.set_flush_denormal(False)


def _in_low_precision() -> None:
    torch.set_float32_matmul_precision("medium")
    try:
        fc.track(draw(2).float())
    finally:
        torch.set_float32_matmul_precision("highest")


@torch.autocast("cpu")
def _autocast(call: Callable[..., object], *tensors: torch.Tensor) -> None:
    call(*(tensor.float() for tensor in tensors))


TRACKED += [
    Refusal(
        "a negative error",
        lambda: fc.track(draw(2), torch.tensor([0.0, -1.0])),
        VALUE,
        "`error` … at least 0 … got -1.0",
    ),
    Refusal(
        "errors of another shape",
        lambda: fc.track(draw(2), torch.zeros(3)),
        VALUE,
        "`error` … (2,) … got (3,)",
    ),
    Refusal(
        "tracked and plain tensors",
        lambda: fc.freeze(draw(3), fc.track(draw(3, 2))),
        TYPE,
        "all be tracked or all be plain … `values` tracked, `scores` plain",
    ),
    Refusal("flushed subnormal numbers", _flushed, RuntimeError, "Subnormal numbers must be kept"),
    Refusal(
        "float32 products of lower precision",
        _in_low_precision,
        RuntimeError,
        "full precision … got 'medium'",
    ),
    Refusal(
        "float32 under autocast",
        lambda: _autocast(fc.freeze, draw(3), draw(3, 2)),
        RuntimeError,
        "Autocast must be off … 'cpu'",
    ),
]
