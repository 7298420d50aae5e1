"""Operations of torch that have no error rule."""

import torch

import finite_calculus as fc
from tests.bad_input.refusal import TYPE, Refusal
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
    }.items()
]
