"""Leading directions of the candidates' own writes at each layer: where a second derivative is needed.

Principal directions of the writes of all single-token edits, so that large writes count for more. They
are found by subspace iteration on the writes themselves; whether they hold a candidate's write is known
exactly afterwards, so that an approximate subspace costs trust and not truth.
"""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.edits import Edit
from finite_calculus.models.layer import LayerCapture
from finite_calculus.models.writes import stacked_responses, token_pulls

_EXTRA, _ROUNDS = 8, 2


def write_directions(
    layer: LayerCapture, count: int, kinds: Sequence[Edit]
) -> Float[Tensor, "directions model"]:
    """At most `count` orthonormal principal directions of the writes of kinds at every token."""
    columns = layer.attended.nonzero().squeeze(-1)
    pieces = [stacked_responses(prepared, kinds) for prepared in token_pulls(layer, columns)]
    return principal(torch.cat(pieces), layer.output_projection.float().flatten(0, 1), count)


def principal(
    rows: Float[Tensor, "rows inputs"], weights: Float[Tensor, "inputs model"], count: int
) -> Float[Tensor, "some model"]:
    """Orthonormal leading right-singular directions of rows·weights, which is not formed.

    Fewer than `count` if the product spans fewer.
    """
    shape = (rows.shape[0], weights.shape[1])
    width = min(count + _EXTRA, *shape)
    draw = torch.Generator().manual_seed(0)
    sketch = torch.randn(shape[0], width, generator=draw, dtype=rows.dtype)
    for _ in range(_ROUNDS):
        basis = torch.linalg.qr(weights.T @ (rows.T @ sketch)).Q
        sketch = rows @ (weights @ basis)
    basis = torch.linalg.qr(weights.T @ (rows.T @ sketch)).Q
    _, sizes, turn = torch.linalg.svd(rows @ (weights @ basis), full_matrices=False)
    noise = sizes[:1] * torch.finfo(rows.dtype).eps * max(shape)
    kept = turn[: min(count, int((sizes > noise).sum()))]
    # Rotated once more: float32 leaves the product orthonormal to a few ulps only.
    return torch.linalg.qr((kept @ basis.T).double().T).Q.T.to(rows.dtype).contiguous()
