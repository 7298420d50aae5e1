"""One head at all continuations: readouts of the prefix and of the causal bank, in two coordinates, float64.

In cache coordinates a readout is softmax attention on the query xW + b; in projection coordinates it is
μ + uᵀΔM (eq:identity). The two are equal in exact arithmetic; `Budget` is what rounding may put between
them, to first order.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.effective import (
    EffectiveWeights,
    affine_features,
    augment,
    effective_weights,
    mean_key_gauge,
)
from finite_calculus.models import LayerCapture
from finite_calculus.models.features import head_rotary
from finite_calculus.readout import Readout, freeze
from finite_calculus.rotary import Rotary, rotate, split_planes

UNIT = torch.finfo(torch.float64).eps / 2
GAUGES = ("original", "mean")
# Continuations whose features are held at once.
_PORTION = 8


@dataclass(frozen=True, eq=False)
class Head:
    """What one head reads at every continuation: the prefix bank, and each one's own key and value.

    `weight` maps u = (x, 1) to the query before its rotation; the last key of a causal bank is the own one.
    """

    inputs: Float[Tensor, "rows inputs"]
    weight: Float[Tensor, "inputs width"]
    rotary: Rotary
    position: int
    scaling: float
    keys: Float[Tensor, "keys width"]
    values: Float[Tensor, "keys value_width"]
    own_keys: Float[Tensor, "rows width"]
    own_values: Float[Tensor, "rows value_width"]

    @cached_property
    def query(self) -> Float[Tensor, "rows width"]:
        """The rotated query of every continuation, affine in its input."""
        return rotate(self.rotary, torch.matmul(self.inputs, self.weight), self.position)

    @cached_property
    def features(self) -> Float[Tensor, "keys inputs"]:
        """Score features of the prefix (eq:features)."""
        return self._features(self.keys)

    @cached_property
    def own_features(self) -> Float[Tensor, "rows inputs"]:
        """Score features of each continuation's own key."""
        return self._features(self.own_keys)

    @cached_property
    def prefix(self) -> Readout:
        """Softmax over the prefix."""
        return freeze(self._scores, self.values)

    @cached_property
    def full(self) -> Readout:
        """Softmax over the prefix and the own key."""
        own = (self.query * self.own_keys).sum(-1, keepdim=True) * self.scaling
        return freeze(torch.cat([self._scores, own], -1), self._full_values)

    @property
    def self_mass(self) -> Float[Tensor, " rows"]:
        """π: the probability of the own token."""
        return self.full.probs[:, -1]

    @property
    def relation(self) -> Float[Tensor, "rows value_width"]:
        """(1 − π) y_prefix + π v_self, which is the causal readout."""
        mass = self.self_mass.unsqueeze(-1)
        return (1 - mass) * self.prefix.output + mass * self.own_values

    def prefix_weights(self, gauge: str) -> Iterator[tuple[slice, EffectiveWeights]]:
        """Effective weights over the prefix, a few continuations at a time."""
        for rows in self._portions():
            count = self.inputs[rows].shape[0]
            features, values = (
                x.expand(count, *x.shape).contiguous() for x in (self.features, self.values)
            )
            chosen = mean_key_gauge(features) if gauge == "mean" else None
            yield rows, effective_weights(self.inputs[rows], features, values, gauge=chosen)

    def full_weights(self) -> Iterator[tuple[slice, EffectiveWeights]]:
        """Effective weights over the causal bank, with its own scores and mean."""
        for rows in self._portions():
            count = self.inputs[rows].shape[0]
            prefix = self.features.expand(count, *self.features.shape)
            features = torch.cat([prefix, self.own_features[rows].unsqueeze(-2)], -2)
            yield rows, effective_weights(self.inputs[rows], features, self._full_values[rows])

    @cached_property
    def score_sizes(self) -> Float[Tensor, "rows keys"]:
        """Sums of the absolute values of the terms of every score of the causal bank."""
        query = _turned_sizes(self.rotary, torch.matmul(self.inputs.abs(), self.weight.abs()))
        own = (query * self.own_keys.abs()).sum(-1, keepdim=True)
        return torch.cat([torch.matmul(query, self.keys.abs().mT), own], -1) * abs(self.scaling)

    def rounded(self) -> "Head":
        """The same head with every number it is made of off by at most one rounding, at random."""
        generator = torch.Generator().manual_seed(0)

        def moved(tensor: Tensor) -> Tensor:
            drawn = torch.rand(tensor.shape, generator=generator, dtype=torch.float64)
            return tensor * (1 + UNIT * (2 * drawn - 1))

        names = ("inputs", "weight", "keys", "values", "own_keys", "own_values")
        return replace(self, **{name: moved(getattr(self, name)) for name in names})

    @cached_property
    def _scores(self) -> Tensor:
        return torch.matmul(self.query, self.keys.mT) * self.scaling

    @cached_property
    def _full_values(self) -> Tensor:
        shared = self.values.expand(self.inputs.shape[0], *self.values.shape)
        return torch.cat([shared, self.own_values.unsqueeze(-2)], -2)

    def _features(self, keys: Tensor) -> Tensor:
        return affine_features(
            self.rotary,
            self.weight[:-1],
            self.weight[-1],
            keys,
            self.position,
            scaling=self.scaling,
        )

    def _portions(self) -> list[slice]:
        return [slice(n, n + _PORTION) for n in range(0, self.inputs.shape[0], _PORTION)]


def head_of(layers: Sequence[LayerCapture], head: int) -> Head:
    """One head from the captures of all continuations, which share every key but the last."""
    first = layers[0]
    if first.softcap is not None or first.sinks is not None:
        raise ValueError(
            f"Layer {first.layer} must be plain softmax attention for this study; it has "
            f"{'a softcap' if first.sinks is None else 'sinks'}. Choose another layer or model."
        )
    _, weights = first.query_map()
    group, weight = first.group(head), weights[head].double()
    bias = torch.zeros_like(weight[:1])
    if first.query_bias is not None:
        bias = first.query_bias[head].double().unsqueeze(0)
    attended = first.attended[:-1]
    return Head(
        inputs=augment(torch.stack([layer.query_map()[0] for layer in layers]).double()),
        weight=torch.cat([weight, bias], 0),
        rotary=head_rotary(first),
        position=first.position,
        scaling=first.scaling * first.rotary_scaling,
        keys=first.keys[group, :-1][attended].double(),
        values=first.values[group, :-1][attended].double(),
        own_keys=torch.stack([layer.keys[group, -1] for layer in layers]).double(),
        own_values=torch.stack([layer.values[group, -1] for layer in layers]).double(),
    )


@dataclass(frozen=True, eq=False)
class Budget:
    """First-order rounding of the readouts of a head, (rows, value width) each.

    A score is off by e_j = (inputs + width + 12)u·Σ|terms|. A softmax readout then moves by
    Σ p_j e_j |v_j − y| and by its own sums over the keys; one through a matrix sums c_j ā_j |v_j − μ| with
    ā_j = Σ|terms| of u·a_j, whose coefficient moves by c_j (e_j + Σ p e).
    """

    head: Head

    def prefix(self) -> Float[Tensor, "rows value_width"]:
        """Between the two readouts of the prefix."""
        head, sizes = self.head, self.head.score_sizes[:, :-1]
        coefficients = _coefficients(head.prefix.scores)
        return self._direct(head.prefix, sizes) + self._through(head.prefix, coefficients, sizes)

    def full(self) -> Float[Tensor, "rows value_width"]:
        """Between the two causal readouts."""
        full, sizes = self.head.full, self.head.score_sizes
        return self._direct(full, sizes) + self._through(full, _coefficients(full.scores), sizes)

    def relation(self) -> Float[Tensor, "rows value_width"]:
        """Between the causal readout and its mixture of prefix and own value."""
        head, sizes = self.head, self.head.score_sizes
        mixed = self._direct(head.full, sizes) + self._direct(head.prefix, sizes[:, :-1])
        mass = head.self_mass.unsqueeze(-1)
        moved = mass * (1 - mass) * self._score_error(sizes).amax(-1, keepdim=True) + 8 * UNIT
        return mixed + 2 * moved * (head.own_values.abs() + head.prefix.output.abs())

    def corrected(self, gauge: str) -> Float[Tensor, "rows value_width"]:
        """Between the direct readout and the anchor's, corrected token by token: three sums over the keys."""
        prefix, sizes = self.head.prefix, self.head.score_sizes[:, :-1]
        direct, scores = self._direct(prefix, sizes), prefix.scores
        if gauge == "mean":
            sizes = sizes + sizes.mean(-1, keepdim=True)
            scores = scores - scores.mean(-1, keepdim=True)
        own = _coefficients(scores)
        return direct + self._through(prefix, own + 2 * own[:1], sizes)

    def _score_error(self, sizes: Tensor) -> Tensor:
        return (sum(self.head.weight.shape) + 12) * UNIT * sizes

    def _direct(self, readout: Readout, sizes: Tensor) -> Tensor:
        moved = (readout.probs * self._score_error(sizes)).unsqueeze(-1) * readout.centred.abs()
        summed = (readout.probs.unsqueeze(-1) * readout.values.abs()).sum(-2)
        return moved.sum(-2) + (2 * readout.keys + 8) * UNIT * summed

    def _through(self, readout: Readout, coefficients: Tensor, sizes: Tensor) -> Tensor:
        keys, (inputs, width) = readout.keys, self.head.weight.shape
        errors = self._score_error(sizes)
        # An anchor's scores are off by as much as the largest of any continuation.
        moved = errors.amax(0) + (readout.probs * errors).sum(-1, keepdim=True)
        steps = moved + (keys + inputs + width + 32) * UNIT
        values = readout.values
        mean, terms = values.abs().mean(-2), coefficients * sizes
        centred = (values - values.mean(-2, keepdim=True)).abs()
        summed = ((terms * steps).unsqueeze(-1) * centred).sum(-2)
        return summed + (keys + 8) * UNIT * mean * (1 + terms.sum(-1, keepdim=True))


def _coefficients(scores: Tensor) -> Tensor:
    """φ1(s)/Σe^s = expm1(s)/(s Σe^s), both scaled by the largest weight."""
    largest = scores.amax(-1, keepdim=True).clamp(min=0)
    total = torch.exp(scores - largest).sum(-1, keepdim=True)
    divisor = torch.where(scores == 0, 1.0, scores)
    growth = (torch.exp(scores - largest) - torch.exp(-largest)) / divisor
    return torch.where(scores == 0, torch.exp(-largest), growth) / total


def _turned_sizes(rotary: Rotary, sizes: Tensor) -> Tensor:
    """Absolute terms of turned vectors: in a plane both coordinates enter both."""
    if rotary.planes == 0:
        return sizes
    turned = sizes.clone()
    first, second = split_planes(rotary, turned)
    mixed = first + second
    first.copy_(mixed)
    second.copy_(mixed)
    return turned
