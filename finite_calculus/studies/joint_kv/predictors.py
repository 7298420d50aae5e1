"""The five predictors of the joint study and their equality controls, from one captured layer.

All share the baseline gradient g and project the head outputs through W_o: G(a) = ⟨g, Σ_h a_h W_h⟩
(eq:jointpredictor to eq:quadraticinteraction). The exact joint response is evaluated in its sparse
form (eq:sparsejoint); the dense control recomputes softmax on both banks and subtracts; the effective
form reads both banks through their effective matrices in the mean-key gauge, each with its own uniform
mean (eq:jointmatrix). These three are equal in exact arithmetic, so that two of them may differ by
rounding alone, for which there is a budget.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.effective import EffectiveWeights, effective_weights, mean_key_gauge
from finite_calculus.joint import decompose
from finite_calculus.margin import head_gradient
from finite_calculus.models import LayerBank, LayerCapture, increments
from finite_calculus.models.layer import head_products, repeat_groups
from finite_calculus.readout import Readout, freeze
from finite_calculus.sparse import prepare

_PARTS = ("linear", "key", "value", "interaction", "quadratic")
_UNIT = torch.finfo(torch.float64).eps / 2


@dataclass(frozen=True, eq=False)
class SpanPredictions:
    """Edits of one span: G of L_s, K_f, V_0, C_KV and C_2 in `parts`, and three evaluations of G(Δy).

    `dense_budget` is what rounding may put between `joint` and `dense`, `effective_budget` between
    `joint` and `effective`.
    """

    parts: dict[str, Float[Tensor, " edits"]]
    joint: Float[Tensor, " edits"]
    dense: Float[Tensor, " edits"]
    effective: Float[Tensor, " edits"]
    dense_budget: Float[Tensor, " edits"]
    effective_budget: Float[Tensor, " edits"]


@dataclass(frozen=True, eq=False)
class _Banks:
    """The captured bank first and the edited ones after it, in float64 and repeated over heads."""

    query: Float[Tensor, "heads width"]
    keys: Float[Tensor, "banks heads keys width"]
    values: Float[Tensor, "banks heads keys value_width"]
    attended: Tensor
    scaling: float
    readout: Readout


def predict_span(
    layer: LayerCapture, banks: Sequence[LayerBank], columns: Sequence[int]
) -> SpanPredictions:
    """Predict edits that change only the given key columns of a layer."""
    require_plain(layer)
    gradient = head_gradient(layer.output_projection.double(), layer.gradient_write.double())
    moved = [increments(layer, bank) for bank in banks]
    scores = torch.stack([change.scores for change in moved])
    values = torch.stack([change.values for change in moved])
    parts = decompose(layer.readout(), scores, values)
    stacked = _stack(layer, banks)
    weights = _effective(stacked)
    output, effective = stacked.readout.output, weights.output
    dense = _dense_budget(stacked, gradient)
    return SpanPredictions(
        parts={name: _contract(getattr(parts, name), gradient) for name in _PARTS},
        joint=_contract(_sparse(layer, scores, values, columns), gradient),
        dense=_contract(output[1:] - output[0], gradient),
        effective=_contract(effective[1:] - effective[0], gradient),
        dense_budget=dense,
        effective_budget=dense + _effective_budget(stacked, weights, gradient),
    )


def require_plain(layer: LayerCapture) -> None:
    """Refuse layers whose scores are capped or that have a sink: the study replays plain softmax."""
    if layer.softcap is not None or layer.sinks is not None:
        raise ValueError(
            f"Layer {layer.layer} must be plain softmax attention for this study; it has "
            f"{'a softcap' if layer.sinks is None else 'sinks'}. Choose another model."
        )


def _contract(response: Tensor, gradient: Tensor) -> Tensor:
    """⟨g, Δy⟩ over heads and width, with the gradient at the head outputs."""
    return (response * gradient).sum((-2, -1))


def _sparse(layer: LayerCapture, scores: Tensor, values: Tensor, columns: Sequence[int]) -> Tensor:
    """Δy from the edited columns and the statistics of all others (eq:sparsejoint)."""
    group = torch.tensor([list(columns)])
    inside = (
        scores.index_select(-1, group[0]).unsqueeze(-2),
        values.index_select(-2, group[0]).unsqueeze(-3),
    )
    return prepare(layer.readout(), group).response(*inside).squeeze(-2)


def _stack(layer: LayerCapture, banks: Sequence[LayerBank]) -> _Banks:
    query, attended = layer.query.double(), layer.attended.expand(layer.heads, -1)
    keys = [bank.keys.double() for bank in (layer.bank(), *banks)]
    values = [repeat_groups(bank.values.double(), layer.heads) for bank in (layer.bank(), *banks)]
    scores = torch.stack([head_products(query, bank) * layer.scaling for bank in keys])
    return _Banks(
        query,
        torch.stack([repeat_groups(bank, layer.heads) for bank in keys]),
        torch.stack(values),
        attended.expand(scores.shape),
        layer.scaling,
        freeze(scores, torch.stack(values), mask=attended),
    )


def _effective(banks: _Banks) -> EffectiveWeights:
    """y = μ + q̃·ΔM per head, with features k̃ − mean of k̃: the mean-key gauge (eq:gauge)."""
    features = banks.keys * banks.scaling
    gauge = mean_key_gauge(features, mask=banks.attended)
    query = banks.query.expand(*features.shape[:-2], -1)
    return effective_weights(query, features, banks.values, gauge=gauge, mask=banks.attended)


def _dense_budget(banks: _Banks, gradient: Tensor) -> Tensor:
    """First-order rounding of G(Δy) by two evaluations: 2Cu·Σ(p'|v'| + p|v|)|g|.

    A probability is off by twice the error of its score, (width + 3)u·Σ|q||k|·scaling, and by the
    sums over the keys in softmax and readout; the contraction sums over heads and width.
    """
    keys, width = banks.keys.shape[-2:]
    size = torch.where(banks.attended, _score_size(banks, banks.keys), 0.0).amax()
    steps = 2 * (width + 3) * float(size) + 3 * keys + gradient.numel() + 16
    terms = (banks.readout.probs.unsqueeze(-1) * banks.values.abs()).sum(-2)
    total = _contract(terms, gradient.abs())
    return 2 * steps * _UNIT * (total[1:] + total[0])


def _effective_budget(banks: _Banks, weights: EffectiveWeights, gradient: Tensor) -> Tensor:
    """First-order rounding of G(uᵀΔM), which is summed over keys first: Cu·Σ c_j Σ|q||a_j| |v_j − μ||g|."""
    keys, width = banks.keys.shape[-2:]
    reach = _score_size(banks, banks.keys) + _score_size(banks, banks.keys).mean(-1, keepdim=True)
    steps = 2 * (width + 3) * float(reach.amax()) + 3 * keys + 2 * width + gradient.numel() + 32
    each = (weights.coefficients * reach).unsqueeze(-1) * weights.centred.abs()
    total = _contract(each.sum(-2) + weights.mean.abs(), gradient.abs())
    return steps * _UNIT * (total[1:] + total[0])


def _score_size(banks: _Banks, keys: Tensor) -> Tensor:
    """Σ_i |q_i||k_ji|·scaling: the terms that a score is summed from."""
    return torch.einsum("hw,bhkw->bhk", banks.query.abs(), keys.abs()) * banks.scaling
