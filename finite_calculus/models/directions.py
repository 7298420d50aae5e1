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
from finite_calculus.models.writes import kind_writes, token_writes

_EXTRA, _ROUNDS = 8, 2


def write_directions(
    layer: LayerCapture, count: int, kinds: Sequence[Edit]
) -> Float[Tensor, "directions model"]:
    """At most `count` orthonormal principal directions of the writes of kinds at every token."""
    columns = layer.attended.nonzero().squeeze(-1)
    pieces = [
        kind_writes(prepared, tuple(kinds)).flatten(0, 1)
        for prepared in token_writes(layer, columns)
    ]
    return principal(torch.cat(pieces), count)


def principal(writes: Float[Tensor, "rows model"], count: int) -> Float[Tensor, "some model"]:
    """Orthonormal leading right-singular directions, fewer than `count` if the writes span fewer."""
    width = min(count + _EXTRA, *writes.shape)
    draw = torch.Generator().manual_seed(0)
    sketch = writes.T @ torch.randn(writes.shape[0], width, generator=draw, dtype=writes.dtype)
    for _ in range(_ROUNDS):
        sketch = writes.T @ (writes @ torch.linalg.qr(sketch).Q)
    basis = torch.linalg.qr(sketch).Q
    _, sizes, turn = torch.linalg.svd(writes @ basis, full_matrices=False)
    noise = sizes[:1] * torch.finfo(writes.dtype).eps * max(writes.shape)
    kept = turn[: min(count, int((sizes > noise).sum()))]
    # Rotated once more: float32 leaves the product orthonormal to a few ulps only.
    return torch.linalg.qr((kept @ basis.T).double().T).Q.T.to(writes.dtype).contiguous()
