"""What executed candidates teach of the order that derivatives leave out.

After n derivatives the rest of an effect is, to leading order, a form of degree n + 1 in the write. With an
isotropic Gaussian prior on its coefficients the covariance of the rests of two writes z, z' (in units of
their residual stream) is ⟨z, z'⟩ⁿ⁺¹, so that a few executed writes of a layer, the anchors, correct all
others that point like them, and tell how far the rest may still be off. Anchors are chosen greedily: each
is the write whose rest is the least known from those before it. A prediction, as all beyond the write.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

# Anchors are sought among so many times their number of the largest writes.
_AMONG = 4


@dataclass(frozen=True, eq=False)
class LayerAnchors:
    """The anchors of one layer: `rows` are its candidates, `chosen` the places of anchors among them.

    `alike` is the covariance of every candidate's rest with those of the anchors, `own` its variance,
    up to a factor that the executed anchors give. `rounding` is that of `alike`.
    """

    rows: Int[Tensor, " rows"]
    chosen: Int[Tensor, " anchors"]
    alike: Float[Tensor, "rows anchors"]
    own: Float[Tensor, " rows"]
    rounding: float


def choose_anchors(
    rows: Int[Tensor, " rows"],
    writes: Float[Tensor, "rows model"],
    norms: Float[Tensor, " rows"],
    *,
    residual: float,
    degree: int,
    count: int,
) -> LayerAnchors:
    """At most `count` anchors of a layer, by pivoted Cholesky of the covariance of its largest writes."""
    unit = residual if residual > 0 else 1.0
    own = (norms / unit) ** (2 * degree)
    rounding = degree * torch.finfo(writes.dtype).eps * float(own.max())
    largest = own.topk(min(_AMONG * count, len(rows))).indices
    among = writes[largest]
    chosen = largest[_pivots(_covariance(among, among, unit, degree), count, rounding)]
    alike = _covariance(writes, writes[chosen], unit, degree)
    return LayerAnchors(rows, chosen, alike, own, rounding)


def _covariance(
    writes: Float[Tensor, "rows model"],
    others: Float[Tensor, "some model"],
    unit: float,
    degree: int,
) -> Float[Tensor, "rows some"]:
    return ((writes @ others.T).double() / unit**2) ** degree


def _pivots(form: Float[Tensor, "some some"], count: int, least: float) -> Int[Tensor, " pivots"]:
    """Places of the largest variances, each after those before it are known; none at most `least`."""
    left, pivots = form.diagonal().clone(), []
    factor = form.new_zeros(count, len(form))
    for number in range(min(count, len(form))):
        place = int(left.argmax())
        if left[place] <= least:
            break
        before = factor[:number]
        factor[number] = (form[place] - before[:, place] @ before) / left[place].sqrt()
        left = (left - factor[number].square()).clamp(min=0)
        left[place] = 0
        pivots.append(place)
    return torch.tensor(pivots, dtype=torch.long)


def rows_of_anchors(anchors: Sequence[LayerAnchors]) -> Int[Tensor, " anchors"]:
    """The candidates to execute."""
    return torch.cat([layer.rows[layer.chosen] for layer in anchors])


def learn(
    anchors: Sequence[LayerAnchors], rest: Float[Tensor, " rows"]
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Correction and deviation of every candidate, from executed less predicted effects of the anchors."""
    correction, deviation = torch.zeros_like(rest), torch.zeros_like(rest)
    for layer in anchors:
        if not len(layer.chosen):
            continue
        known = rest[layer.rows[layer.chosen]]
        form = layer.alike[layer.chosen]
        form = form + layer.rounding * torch.eye(len(form), dtype=form.dtype)
        factor = torch.linalg.cholesky(form)
        whitened = torch.linalg.solve_triangular(
            factor, torch.cat([known.unsqueeze(-1), layer.alike.T], -1), upper=False
        )
        values, seen = whitened[:, :1], whitened[:, 1:]
        size = values.square().mean()
        correction[layer.rows] = (seen * values).sum(0)
        unseen = (layer.own - seen.square().sum(0)).clamp(min=0)
        deviation[layer.rows] = (size * unseen).sqrt()
    return correction, deviation
