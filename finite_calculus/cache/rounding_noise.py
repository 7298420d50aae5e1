"""How far rounding alone may move a cache: each operation's own rounding, carried on by the model itself.

Two correct runs of a prompt differ because sums are taken in other orders. A sum of n products rounds, in
any order, by about u·√n·‖w∘x‖₂ at most if roundings are independent; that is added as noise to the output
of every linear map, and likewise to norms, scores and mixtures, many times larger than the rounding of the
run itself and small enough to stay linear. The model carries the noise on, so that what arrives in each
layer's keys, values and outputs is its true response; dividing by the factor gives the spread per unit of
precision. A bound that adds worst cases over the layers instead would be too wide to see anything. What is
derived is a spread, so that a threshold on it is a probability and not a certainty.
"""

import math
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import PreTrainedModel

from finite_calculus.cache.passing import passing
from finite_calculus.cache.records import PARTS, CacheRecord, record
from finite_calculus.models import supported
from finite_calculus.models.precision import PRECISIONS, computed_in_float32
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.support import Site, chunk_length

# Half a last place of one rounding in each precision.
UNITS = {name: precision.coarsest.unit for name, precision in PRECISIONS.items()}
# Noise is so many times the rounding of float32: far above the run's own, far below what bends.
_FACTOR = 256.0
# Roundings of a norm, and of the exponentials and quotients of a softmax, each relative to its result.
_FEW = 8.0


@dataclass(frozen=True, eq=False)
class Spread:
    """Root mean square over the width of what a unit of rounding does, for each head and token."""

    keys: tuple[Float[Tensor, "groups tokens"], ...]
    values: tuple[Float[Tensor, "groups tokens"], ...]
    outputs: tuple[Float[Tensor, "heads tokens"], ...]

    def part(self, name: str) -> tuple[Tensor, ...]:
        """One of `PARTS`."""
        return getattr(self, name)


@dataclass(eq=False)
class Draws:
    """Normal numbers on any device, each with a generator of its own from one seed."""

    seed: int
    generators: dict[torch.device, torch.Generator] = field(default_factory=dict)

    def normal(self, like: Tensor) -> Tensor:
        """Numbers of the shape of a tensor, where that lies."""
        place = like.device
        if place not in self.generators:
            self.generators[place] = torch.Generator(device=place).manual_seed(self.seed)
        return torch.randn(like.shape, generator=self.generators[place], device=place)


def rounding_spread(
    model: PreTrainedModel, ids: Sequence[int] | Tensor, *, probes: int = 8, seed: int = 0
) -> Spread:
    """The spread of a prompt's cache under rounding, from so many noisy runs, in float32 at least."""
    # Asked before any hook of ours sits on an attention module.
    sites = supported(model).sites
    with computed_in_float32(model):
        return _spread(model, sites, ids, probes, Draws(seed))


def _spread(
    model: PreTrainedModel,
    sites: tuple[Site, ...],
    ids: Sequence[int] | Tensor,
    probes: int,
    draw: Draws,
) -> Spread:
    ordinary = record(model, ids, sites=sites)
    squares: dict[str, list[Tensor]] = {
        name: [torch.zeros(x.shape[:2], dtype=torch.float64) for x in ordinary.part(name) or ()]
        for name in PARTS
    }
    for _ in range(probes):
        noisy = _noisy_record(model, sites, ids, draw)
        for name in PARTS:
            pairs = zip(noisy.part(name) or (), ordinary.part(name) or (), strict=True)
            for total, (x, y) in zip(squares[name], pairs, strict=True):
                total += (x.double() - y.double()).square().mean(-1) / probes
    scale = _FACTOR * UNITS["float32"]
    spread = {name: tuple(x.sqrt() / scale for x in squares[name]) for name in PARTS}
    # A key's angle is a product of float32, so it is off by as many units as it has radians.
    angles = tuple(
        (
            wide.square()
            + ((_FEW + _steps(keys)) * keys.double().norm(dim=-1)).square() / keys.shape[-1]
        ).sqrt()
        for wide, keys in zip(spread["keys"], ordinary.keys, strict=True)
    )
    return Spread(angles, spread["values"], spread["outputs"])


def _steps(keys: Tensor) -> Tensor:
    return torch.arange(keys.shape[1], dtype=torch.float64)


def _noisy_record(
    model: PreTrainedModel,
    sites: tuple[Site, ...],
    ids: Sequence[int] | Tensor,
    draw: Draws,
) -> CacheRecord:
    noise: dict[int, Tensor] = {}
    scale = _FACTOR * UNITS["float32"]

    def normal(size: Tensor) -> Tensor:
        return size * draw.normal(size) * scale

    def linear(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return output + normal(_linear_noise(module, args[0]))

    def norm(module: nn.Module, args: tuple[Tensor, ...], output: Tensor) -> Tensor:
        return output + normal(_FEW * output.abs())

    def look(site: Site, call: AttentionCall) -> AttentionCall:
        noise[site.layer] = _mixture_noise(call, _seen(site, call))
        return call

    def mixture_of(site: Site):
        def mixture(module: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor]:
            return (args[0] + normal(noise[site.layer]),)

        return mixture

    with ExitStack() as stack:
        for module in model.base_model.modules():
            # A router of experts is a linear map that chooses too: noise would choose others.
            if _weight(module) is not None and "Router" not in type(module).__name__:
                stack.callback(module.register_forward_hook(linear).remove)
            elif "Norm" in type(module).__name__:
                stack.callback(module.register_forward_hook(norm).remove)
        for site in sites:
            hook = mixture_of(site)
            stack.callback(site.projection.register_forward_pre_hook(hook).remove)
        stack.enter_context(passing(model, sites, look))
        return record(model, ids, sites=sites)


def _weight(module: nn.Module) -> Tensor | None:
    """The weight of a linear map as (outputs, inputs); None for any other module."""
    weight = getattr(module, "weight", None)
    if isinstance(module, nn.Linear):
        return weight
    if type(module).__name__ == "Conv1D" and isinstance(weight, Tensor):
        return weight.mT
    return None


def _linear_noise(module: nn.Module, inputs: Tensor) -> Tensor:
    """√n·‖w∘x‖₂ of every output."""
    weight = _weight(module)
    if weight is None:
        raise TypeError(f"`module` must be a linear map; got {type(module).__name__}.")
    squares = nn.functional.linear(inputs.square(), weight.to(inputs.dtype).square())
    return squares.sqrt() * math.sqrt(weight.shape[-1])


def _seen(site: Site, call: AttentionCall) -> Tensor:
    """Which keys each query attends to, (queries, keys): those before it, of its window or chunk."""
    count, queries, device = call.key.shape[2], call.query.shape[2], call.key.device
    keys = torch.arange(count, device=device)
    reader = keys[count - queries :].unsqueeze(-1)
    seen = keys <= reader
    window, chunk = call.options.get("sliding_window"), chunk_length(site)
    if window is not None:
        seen &= keys > reader - window
    return seen if chunk is None else seen & (keys // chunk == reader // chunk)


def _mixture_noise(call: AttentionCall, seen: Tensor) -> Tensor:
    """What the roundings of scores, softmax and mixture do to the output, (rows, queries, heads × width)."""
    members = call.query.shape[1] // call.key.shape[1]
    key, value = (x.repeat_interleave(members, 1) for x in (call.key, call.value))
    count = key.shape[2]
    raw = call.query @ key.mT * call.scaling
    scores = raw.masked_fill(~seen, -torch.inf)
    probs = scores.softmax(-1)
    width = call.query.shape[-1]
    product = (call.query.square() @ key.square().mT).sqrt() * call.scaling * math.sqrt(width)
    # An angle is off by as many units as it has radians, on either side of the product.
    off = product + (_FEW + 2 * count) * raw.abs()
    size = (probs * off).square() @ value.square() * 4
    size = size + (probs.square() @ value.square()) * (_FEW**2 + count)
    return size.sqrt().transpose(1, 2).flatten(2)
