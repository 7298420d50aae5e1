"""The coefficients c = φ1(s)/Z of effective weights, and how far those of an anchor can be (eq:bound)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from finite_calculus._once import computed_once
from finite_calculus._transforms import refuted
from finite_calculus.margin import norm
from finite_calculus.phi import phi1
from finite_calculus.rounding import Tracked, error_of, track, value_of


def score_coefficients(scores: Tensor, attended: Tensor) -> Tensor:
    """φ1(s)/Σe^s with both scaled by the largest score: φ1(s) = e^s φ1(−s) for s > 0."""
    top = torch.where(attended, scores, -torch.inf).detach().amax(-1, keepdim=True)
    relative = torch.where(attended, scores - top, 0.0)
    total = torch.where(attended, torch.exp(relative), 0.0).sum(-1, keepdim=True)
    rising = torch.exp(relative) * phi1(-scores.clamp(min=0))
    falling = torch.exp(-top) * phi1(scores.clamp(max=0))
    coefficients = torch.where(attended, torch.where(scores > 0, rising, falling), 0.0) / total
    if refuted(torch.isfinite(coefficients).all()):
        raise ValueError(
            f"The coefficients φ1(s)/Z overflow in this gauge: the largest score is "
            f"{float(top.min()):.4g}. Pass `gauge`=reference_key_gauge(features, key) with a key of "
            f"large score; the readout is the same in every gauge."
        )
    return coefficients


@dataclass(frozen=True, eq=False)
class AnchorChange:
    """Two queries at one bank, evaluated once more under the running error analysis.

    The features may have been rounded by a gauge, and v − μ was formed from offsets that are at most
    twice its largest entry: these were rounded, divided by their number, summed and subtracted.
    """

    features: Float[Tensor, "*batch keys inputs"]
    centred: Float[Tensor, "*batch keys width"]
    weighed: Bool[Tensor, "*batch keys"]
    query_input: Float[Tensor, "*batch inputs"]
    anchor_input: Float[Tensor, "*batch inputs"]

    def hidden(self, change: Float[Tensor, "*batch inputs width"]) -> Tensor:
        """How far each entry of ΔM − ΔM_anchor may lie from the computed `change`, in float64."""
        difference = self._coefficients(self.query_input) - self._coefficients(self.anchor_input)
        exact = torch.matmul(self._features.mT, difference.unsqueeze(-1) * self._centred)
        return error_of(exact) + (value_of(exact) - change).double().abs()

    def reach(self) -> Tensor:
        """Σ |c − c_anchor||uᵀa|‖v − μ‖ in float64, from |c − c_anchor| ≤ c_anchor (e^{2Δ} − 1).

        Δ is the largest change of a score: log c changes by (φ1'/φ1)(s) ds − E_p ds, where φ1' < φ1.
        """
        moved = (self.query_input.double() - self.anchor_input.double()).abs().unsqueeze(-1)
        largest = torch.matmul(_largest(self._features), moved).amax((-2, -1), keepdim=True)
        growth = torch.expm1(2 * largest).squeeze(-1)
        weights = _largest(self._coefficients(self.anchor_input)) * growth
        sizes = norm(_largest(self._centred))
        reach = (weights * _largest(self._scores(self.query_input)) * sizes).sum(-1)
        # Sums over inputs, width and keys, and a few products, none below the smallest number.
        count = sum(self.features.shape[-2:]) + self.centred.shape[-1] + 16
        info = torch.finfo(torch.float64)
        return reach * (1 + count * info.eps) + count * info.smallest_normal * info.eps

    @property
    def _features(self) -> Tracked:
        return computed_once(self, self._track_features)

    @property
    def _centred(self) -> Tracked:
        return computed_once(self, self._track_centred)

    def _track_features(self) -> Tracked:
        return track(self.features, self._unit * self.features.double().abs())

    def _track_centred(self) -> Tracked:
        largest = self.centred.double().abs().amax(-2, keepdim=True).expand(self.centred.shape)
        return track(self.centred, 4 * (self.centred.shape[-2] + 4) * self._unit * largest)

    @property
    def _unit(self) -> float:
        return torch.finfo(self.features.dtype).eps / 2

    def _scores(self, query_input: Tensor) -> Tensor:
        return torch.matmul(self._features, track(query_input).unsqueeze(-1)).squeeze(-1)

    def _coefficients(self, query_input: Tensor) -> Tensor:
        # A key that is not attended has neither features nor a coefficient.
        attended = self.weighed | (self.features != 0).any(-1)
        return score_coefficients(self._scores(query_input), attended)


def _largest(tensor: Tensor) -> Tensor:
    """The largest size that an entry may have, in float64."""
    return value_of(tensor).double().abs() + error_of(tensor)
