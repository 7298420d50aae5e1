"""Two caches of one prompt: rounding, or a fault, and then where it is first seen.

Layers are compared in the order in which a run fills them: keys, values, then the heads' outputs, each head
and token by ‖difference‖ against the spread of rounding (`rounding_noise`). Whatever lies beyond the
threshold is no rounding, save with the probability that the threshold stands for. A fault reaches
everything above it, so only the first place names it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.cache.records import PARTS, CacheRecord
from finite_calculus.cache.rounding_noise import UNITS, Spread

# Beyond so many spreads a normal number lies with probability 1e-9.
DEVIATIONS = 6.11


@dataclass(frozen=True)
class Difference:
    """Where two caches differ by more than rounding: the part of a layer, its heads and its tokens.

    `ratio` is the largest ‖difference‖ over what rounding allows; `guess` says what would explain it.
    """

    layer: int
    part: str
    heads: tuple[int, ...]
    tokens: tuple[int, ...]
    ratio: float
    guess: str


@dataclass(frozen=True)
class LayerRatio:
    """The largest ‖difference‖ over the allowance in each part of one layer."""

    layer: int
    keys: float
    values: float
    outputs: float | None


@dataclass(frozen=True)
class CacheComparison:
    """The first difference that rounding does not explain, if there is one, and the figures of all layers."""

    first: Difference | None
    layers: tuple[LayerRatio, ...]

    @property
    def rounding(self) -> bool:
        """Whether rounding explains everything."""
        return self.first is None


def compare_caches(
    reference: CacheRecord, other: CacheRecord, spread: Spread, *, precision: str = "float32"
) -> CacheComparison:
    """Hold `other` to `reference`, a run of the same prompt, at the less precise one's precision."""
    if precision not in UNITS:
        raise ValueError(f"`precision` must be one of {', '.join(UNITS)}; got {precision!r}.")
    _check_shapes(reference, other)
    # Both runs round.
    unit = UNITS[precision] * DEVIATIONS * 2**0.5
    first, layers = None, []
    for number in range(len(reference.keys)):
        largest: dict[str, float] = {}
        for name, one, two, wide in _parts(reference, other, spread, number):
            ratios = _ratios(one, two, wide * unit)
            largest[name] = float(ratios.max())
            if first is None and largest[name] > 1:
                first = _difference(number, name, one, two, ratios)
        outputs = largest.get("outputs")
        layers.append(LayerRatio(number, largest["keys"], largest["values"], outputs))
    return CacheComparison(first, tuple(layers))


def _parts(
    reference: CacheRecord, other: CacheRecord, spread: Spread, number: int
) -> Iterator[tuple[str, Tensor, Tensor, Tensor]]:
    for name in PARTS:
        one, two = reference.part(name), other.part(name)
        if one is not None and two is not None:
            yield name, one[number].double(), two[number].double(), spread.part(name)[number]


def _ratios(one: Tensor, two: Tensor, allowed: Tensor) -> Float[Tensor, "heads tokens"]:
    """‖difference‖ over what is allowed; what is not a number is infinitely far."""
    apart = (one - two).norm(dim=-1)
    limit = (allowed * one.shape[-1] ** 0.5).clamp(min=torch.finfo(torch.float64).tiny)
    return (apart / limit).nan_to_num(nan=torch.inf)


def _difference(number: int, name: str, one: Tensor, two: Tensor, ratios: Tensor) -> Difference:
    beyond = ratios > 1
    heads = beyond.any(1).nonzero().squeeze(-1)
    tokens = beyond.any(0).nonzero().squeeze(-1)
    return Difference(
        layer=number,
        part=name,
        heads=tuple(heads.tolist()),
        tokens=tuple(tokens.tolist()),
        ratio=float(ratios.max()),
        guess=_guess(name, one, two, heads, tokens),
    )


def _guess(name: str, one: Tensor, two: Tensor, heads: Tensor, tokens: Tensor) -> str:
    """What would explain the difference; to be read as a hint."""
    before, after = one[heads][:, tokens], two[heads][:, tokens]
    if not bool(torch.isfinite(after).all()):
        return "numbers that are none"
    if name == "outputs":
        whole = len(tokens) == one.shape[1]
        return "the attention itself: its mask, scale or softmax" + (
            "" if whole else ", at some tokens"
        )
    scale = float((before * after).sum() / before.square().sum().clamp(min=1e-300))
    if float((after - scale * before).norm()) < 0.01 * float((after - before).norm()):
        return f"a scale of {scale:.6g}"
    norms = before.norm(dim=-1), after.norm(dim=-1)
    if name == "keys" and float(((norms[1] - norms[0]) / norms[0]).abs().max()) < 1e-3:
        return "keys turned but not stretched: another position or rotation"
    source = _copied_from(one, after, heads, tokens)
    if source is not None:
        return f"entries of the tokens from {source}: a page out of place"
    inside = int(tokens[-1]) < one.shape[1] - 1
    if inside and bool((tokens.diff() == 1).all()) and len(tokens) > 1:
        return "a run of tokens with other contents: a stale page"
    if len(heads) == one.shape[0] and len(tokens) > 1:
        return "every head: what enters this layer differs already, so look at the layer below"
    return "no simple cause"


def _copied_from(one: Tensor, after: Tensor, heads: Tensor, tokens: Tensor) -> int | None:
    """The token whose entry in the reference is the first differing one of the other, if there is one."""
    apart = (one[heads] - after[:, :1]).norm(dim=-1).sum(0)
    best = int(apart.argmin())
    close = float(apart[best]) < 0.01 * float(after[:, 0].norm(dim=-1).sum())
    return best if close and best != int(tokens[0]) else None


def _check_shapes(reference: CacheRecord, other: CacheRecord) -> None:
    for name in PARTS:
        one, two = reference.part(name), other.part(name)
        if one is None or two is None:
            continue
        shapes = [tuple(x.shape) for x in one], [tuple(x.shape) for x in two]
        if shapes[0] != shapes[1]:
            raise ValueError(
                f"Both caches must be of one prompt and one model, with {name} of equal shapes in every "
                f"layer; got {len(one)} layers of {shapes[0][0]} and {len(two)} of {shapes[1][0]}."
            )
