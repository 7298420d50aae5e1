"""Attention-preserving directions and minimum-norm query control: Section 4 and Appendix C.

Log attention ratios are affine in the query input at a fixed bank, so requested ratios are a linear
system and the directions that change no probability are its kernel. Ranks are numerical and their
tolerance is stated; a requested ratio counts as achieved only after the probabilities have been
recomputed. Minimum norm refers to the affine head input, not to anything upstream of it.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._transforms import require_numbers
from finite_calculus.effective import effective_weights, reference_key_gauge
from finite_calculus.readout import freeze
from finite_calculus.rounding import error_of, track

# Why the preserving directions need numbers.
_SHAPE = "how many directions there are depends on them"


@dataclass(frozen=True, eq=False)
class PreservingDirections:
    """Orthonormal columns `basis` that leave every attention probability unchanged (main:curvature).

    `rank` is the dimension of the controllable complement: the number of singular values above
    `tolerance` times the largest.
    """

    basis: Float[Tensor, "model kept"]
    rank: int
    tolerance: float
    singular_values: Float[Tensor, " values"]


@dataclass(frozen=True, eq=False)
class QueryControl:
    """A query edit for requested log ratios, with what it really achieves (main:querycontrol).

    `achieved` comes from recomputed probabilities; `residual` = requested − achieved. `feasible` says
    whether the request was met to within `accuracy`; where it is False the edit is the least-squares
    one and the ratios are not achieved.
    """

    edit: Float[Tensor, " model"]
    requested: Float[Tensor, " requests"]
    achieved: Float[Tensor, " requests"]
    residual: Float[Tensor, " requests"]
    feasible: bool
    accuracy: float
    rank: int
    tolerance: float


def relative_features(
    features: Float[Tensor, "*batch keys inputs"], reference: int
) -> Float[Tensor, "*batch keys model"]:
    """Rows of H_all: feature differences a_j − a_{j₀} on the editable coordinates (eq:curvaturegauge).

    The last input coordinate, the bias, is held fixed and dropped.
    """
    _check_features(features)
    return (features - reference_key_gauge(features, reference).unsqueeze(-2))[..., :-1]


def curvature(
    query_input: Float[Tensor, "*batch inputs"],
    features: Float[Tensor, "*batch keys inputs"],
    reference: int,
) -> Float[Tensor, "*batch model model"]:
    """Γ = Σ c̃_j (Pᵀã_j)(Pᵀã_j)ᵀ, the quadratic's curvature on editable coordinates (eq:curvaturegauge).

    Positive semi-definite; its kernel is that of `relative_features` for every query and reference.
    """
    gauge = reference_key_gauge(features, reference)
    blank = torch.zeros_like(features[..., :1])
    weights = effective_weights(query_input, features, blank, gauge=gauge)
    rows = relative_features(features, reference)
    return torch.matmul(rows.mT, weights.coefficients.unsqueeze(-1) * rows)


def preserving_directions(
    features: Float[Tensor, "keys inputs"],
    *,
    mask: Bool[Tensor, " keys"] | None = None,
    tolerance: float | None = None,
) -> PreservingDirections:
    """Query directions that preserve attention for edits of any size (main:curvature).

    The kernel of H_all by singular values; `tolerance` is relative to the largest and defaults to
    max(keys, model)·eps.
    """
    _one_head(features)
    if features.shape[0] == 0:
        raise ValueError(
            "`features` must hold at least one key; got 0. There is nothing to attend."
        )
    if mask is not None:
        _checks.exact_axes("mask", mask, features.shape[:1], "(keys,)")
        _checks.mask_over("mask", mask, features.shape[0])
        require_numbers("preserving_directions", _SHAPE, mask=mask)
    require_numbers("preserving_directions", _SHAPE, features=features)
    attended = features if mask is None else features[mask]
    rows = relative_features(attended, 0)
    _, singular, right = torch.linalg.svd(rows, full_matrices=True)
    rank, tolerance = _rank(singular, rows, tolerance)
    return PreservingDirections(right[rank:].mT, rank, tolerance, singular)


def log_ratios(
    query_input: Float[Tensor, "*batch inputs"],
    features: Float[Tensor, "*batch keys inputs"],
    pairs: Int[Tensor, "requests 2"],
) -> Float[Tensor, "*batch requests"]:
    """log(p_j/p_k) = uᵀ(a_j − a_k) for every pair (eq:querylogodds): the normaliser cancels."""
    _check_pairs(query_input, features, pairs)
    rows = features[..., pairs[:, 0], :] - features[..., pairs[:, 1], :]
    return torch.matmul(rows, query_input.unsqueeze(-1)).squeeze(-1)


def control_query(
    query_input: Float[Tensor, " inputs"],
    features: Float[Tensor, "keys inputs"],
    pairs: Int[Tensor, "requests 2"],
    requested: Float[Tensor, " requests"],
    *,
    tolerance: float | None = None,
) -> QueryControl:
    """Smallest edit of the query input that realises requested log ratios (main:querycontrol).

    h = H†b with rows a_j − a_k and b = requested − current. `features` are those after any positional
    edit. Requests that contradict each other whatever the features are refused; a request that the
    features cannot meet is answered with `feasible=False` and its residual.
    """
    _check_request(query_input, features, pairs, requested)
    rows = (features[pairs[:, 0]] - features[pairs[:, 1]])[:, :-1]
    missing = requested - log_ratios(query_input, features, pairs)
    left, singular, right = torch.linalg.svd(rows, full_matrices=False)
    rank, tolerance = _rank(singular, rows, tolerance)
    inverse = torch.where(
        torch.arange(len(singular), device=singular.device) < rank, 1 / singular, 0.0
    )
    edit = torch.matmul(right.mT, inverse * torch.matmul(left.mT, missing))
    achieved = _recomputed_log_ratios(query_input, edit, features, pairs)
    residual = requested - achieved
    accuracy = _accuracy(query_input, edit, features, pairs)
    return QueryControl(
        edit=edit,
        requested=requested,
        achieved=achieved,
        residual=residual,
        feasible=float(residual.detach().abs().max()) <= accuracy,
        accuracy=accuracy,
        rank=rank,
        tolerance=tolerance,
    )


def _recomputed_log_ratios(
    query_input: Tensor, edit: Tensor, features: Tensor, pairs: Tensor
) -> Tensor:
    moved = torch.cat([query_input[:-1] + edit, query_input[-1:]])
    scores = torch.matmul(features, moved.unsqueeze(-1))
    log_probs = freeze(scores.squeeze(-1), scores).log_probs
    return log_probs[pairs[:, 0]] - log_probs[pairs[:, 1]]


def _accuracy(query_input: Tensor, edit: Tensor, features: Tensor, pairs: Tensor) -> float:
    """How far rounding alone can leave an achieved log ratio from its request.

    Once the bound on recomputing the ratios, and once more for the solve: it is backward stable, so
    that it rounds the same products.
    """
    tracked = track(query_input.detach()), track(edit.detach()), track(features.detach())
    return 2 * float(error_of(_recomputed_log_ratios(*tracked, pairs)).max())


def _rank(singular: Tensor, rows: Tensor, tolerance: float | None) -> tuple[int, float]:
    if tolerance is None:
        tolerance = max(rows.shape) * torch.finfo(rows.dtype).eps
    if not 0 <= tolerance < 1:
        raise ValueError(
            f"`tolerance` must lie in [0, 1), relative to the largest singular value; got {tolerance}. "
            f"Leave it out for max(shape)·eps."
        )
    largest = float(singular.detach().max()) if len(singular) else 0.0
    return int((singular > tolerance * largest).sum()), tolerance


def _check_features(features: Tensor) -> None:
    _checks.floating("features", features)
    _checks.last_axes("features", features, (None, None), "(..., keys, inputs)")
    _checks.finite("features", features)


def _one_head(features: Tensor) -> None:
    _check_features(features)
    if features.ndim != 2:
        raise ValueError(
            f"`features` must have shape (keys, inputs), one head and query position; got "
            f"{tuple(features.shape)}. Ranks differ between heads: call once per head."
        )


def _check_request(query_input: Tensor, features: Tensor, pairs: Tensor, requested: Tensor) -> None:
    _one_head(features)
    _check_pairs(query_input, features, pairs)
    _checks.same_dtype(features=features, requested=requested)
    _checks.exact_axes("requested", requested, (pairs.shape[0],), "(requests,)")
    _checks.finite("requested", requested)
    if pairs.shape[0] == 0:
        raise ValueError("`pairs` must hold at least one request; got none.")
    numbers = {"query_input": query_input, "features": features}
    numbers |= {"pairs": pairs, "requested": requested}
    require_numbers("control_query", "its rank and `feasible` are plain numbers", **numbers)
    _check_consistent(pairs.tolist(), requested.tolist(), torch.finfo(requested.dtype).eps)


def _check_pairs(query_input: Tensor, features: Tensor, pairs: Tensor) -> None:
    _check_features(features)
    _checks.same_dtype(query_input=query_input, features=features)
    shape = (*features.shape[:-2], features.shape[-1])
    _checks.exact_axes("query_input", query_input, shape, "(..., inputs)")
    _checks.finite("query_input", query_input)
    _checks.exact_axes("pairs", pairs, (None, 2), "(requests, 2)")
    _checks.one_device(pairs=pairs, features=features)
    _checks.key_indices("pairs", pairs, features.shape[-2])


def _check_consistent(pairs: list[list[int]], requested: list[float], eps: float) -> None:
    """Refuse requests that contradict each other: log ratios must add up to zero around a cycle."""
    potential: dict[int, float] = {}
    scale = sum(abs(ratio) for ratio in requested)
    pending = list(range(len(pairs)))
    while pending:
        linked = [i for i in pending if potential.keys() & set(pairs[i])]
        current = linked[0] if linked else pending[0]
        pending.remove(current)
        (above, below), ratio = pairs[current], requested[current]
        if above not in potential:
            potential[above] = potential.setdefault(below, 0.0) + ratio
        elif below not in potential:
            potential[below] = potential[above] - ratio
        implied = potential[above] - potential[below]
        if abs(implied - ratio) > 4 * len(pairs) * eps * scale:
            raise ValueError(
                f"`requested` must not contradict itself; request {current} asks for a log ratio of "
                f"{ratio:.6g} between keys {above} and {below}, but the other requests imply "
                f"{implied:.6g}. Remove one of them."
            )
