"""Second order downstream: m(o + Δo) ≈ m + ⟨g, Δo⟩ + ½ Δoᵀ H Δo, with H the Hessian at the writes.

H is kept by its action on a few directions of each layer: the products H b and the symmetric form bᵀHb',
also between layers. Of a write, the part along the directions has its exact second-order term, the mixed
term with the part outside is exact too, and what is left is ½ rᵀHr of the part r outside, whose size is
reported. All of it is a prediction beyond the edited write and bounds nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.directions import write_directions
from finite_calculus.models.edits import Edit
from finite_calculus.models.kinds import DIRECTION_KINDS
from finite_calculus.models.layer import LayerCapture, stored_copy
from finite_calculus.models.margins import Margin
from finite_calculus.models.products import layer_products
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.smoothness import missing_smoothness


@dataclass(frozen=True, eq=False)
class SecondOrder:
    """Second-order terms of writes, and the norms of the writes and of their parts outside."""

    term: Float[Tensor, " writes"]
    outside: Float[Tensor, " writes"]
    size: Float[Tensor, " writes"]


@dataclass(frozen=True, eq=False)
class Curvature:
    """The Hessian of the margin at the writes of the last token, along `count` directions of each layer.

    `basis` and `products` = H b are rows of one layer after another, `form` is B H Bᵀ over all
    layers, symmetrised. `layers` names the layer of each row. `asymmetry` is the spectral norm of
    (F − Fᵀ)/2 of each layer's own form before that: the measured float32 rounding of its second
    derivatives. `gradient_gap` is the relative distance of this pass's gradient from the captured
    one. `not_smooth` says why the model has the second derivative of its present piece only.
    """

    layers: tuple[int, ...]
    basis: Float[Tensor, "rows model"]
    products: Float[Tensor, "rows model"]
    form: Float[Tensor, "rows rows"]
    asymmetry: tuple[float, ...]
    gradient_gap: tuple[float, ...]
    not_smooth: str = ""

    def rows(self, layer: int) -> slice:
        """The rows of one layer; refuses a layer that has none."""
        if layer not in self.layers:
            raise ValueError(
                f"`layer` must have captured curvature, one of {sorted(set(self.layers))}; got {layer}. "
                f"Name it in `layers` when capturing with `curvature`."
            )
        first = self.layers.index(layer)
        return slice(first, first + self.layers.count(layer))

    def second(self, layer: int, writes: Float[Tensor, "writes model"]) -> SecondOrder:
        """½ cᵀFc + ⟨H Bᵀc, r⟩ for writes Δo = Bᵀc + r of one layer (float32)."""
        rows = self.rows(layer)
        basis, products, form = self.basis[rows], self.products[rows], self.form[rows, rows]
        inside, seen = (writes @ torch.cat([basis, products]).T).split(len(basis), -1)
        # ½ cᵀFc + ⟨H Bᵀc, Δo − Bᵀc⟩, its terms in c together.
        quadratic = inside @ (0.5 * form - basis @ products.T)
        rest = torch.addmm(writes, inside, basis, alpha=-1)
        return SecondOrder(
            term=(inside * (quadratic + seen)).sum(-1),
            outside=torch.linalg.vector_norm(rest, dim=-1),
            size=torch.linalg.vector_norm(writes, dim=-1),
        )

    def steepest(self, layer: int) -> float:
        """The largest curvature along the directions of a layer, |λ|."""
        rows = self.rows(layer)
        return float(torch.linalg.matrix_norm(self.form[rows, rows].double(), ord=2))

    def cross(self, writes: Mapping[int, Float[Tensor, " model"]]) -> float:
        """Σ over pairs of layers of Δo_ℓᵀ H Δo_ℓ', along the directions of both."""
        inside = {n: self.basis[self.rows(n)] @ write for n, write in writes.items()}
        numbers = sorted(inside)
        return sum(
            float(inside[low] @ self.form[self.rows(low), self.rows(high)] @ inside[high])
            for place, low in enumerate(numbers)
            for high in numbers[place + 1 :]
        )

    def rounding(self, layer: int, size: Tensor) -> Tensor:
        """The float32 rounding to expect in a second-order term of a write of this norm: ½ a ‖Δo‖²."""
        place = sorted(set(self.layers)).index(layer)
        return 0.5 * self.asymmetry[place] * size.square()


def take_curvature(
    prompt: PreparedPrompt,
    margin: Margin,
    layers: Sequence[LayerCapture],
    count: int,
    *,
    kinds: Sequence[Edit] = DIRECTION_KINDS,
) -> Curvature:
    """Directions of every captured layer and the Hessian along them."""
    numbers = [layer.layer for layer in layers]
    bases = [write_directions(layer, count, kinds) for layer in layers]
    owners = [number for number, basis in zip(numbers, bases, strict=True) for _ in basis]
    begins = [0, *accumulate(len(each) for each in bases)]
    basis = torch.cat(bases)
    form = torch.full((len(owners), len(owners)), torch.nan, dtype=basis.dtype)
    products, gaps = torch.empty_like(basis), [0.0] * len(numbers)
    for part in layer_products(prompt, margin, numbers, bases):
        change, place = stored_copy(part.change), part.place
        own = slice(begins[place], begins[place + 1])
        form[part.first : part.first + len(change), own] = change @ bases[place].T
        gaps[place] = _gap(part.gradient, layers[place])
        if part.own is not None:
            products[own] = stored_copy(part.own)
    asymmetry = tuple(_asymmetry(form, owners, number) for number in numbers)
    return Curvature(
        layers=tuple(owners),
        basis=basis,
        products=products,
        form=_symmetrised(form),
        asymmetry=asymmetry,
        gradient_gap=tuple(gaps),
        not_smooth=missing_smoothness(prompt.model),
    )


def _gap(gradient: Tensor, layer: LayerCapture) -> float:
    apart = gradient.detach().cpu().reshape(-1).double() - layer.gradient_write.double()
    return float(apart.norm() / layer.gradient_write.double().norm())


def _asymmetry(form: Tensor, owners: list[int], number: int) -> float:
    first, count = owners.index(number), owners.count(number)
    own = form[first : first + count, first : first + count].double()
    return float(torch.linalg.matrix_norm((own - own.T) / 2, ord=2))


def _symmetrised(form: Tensor) -> Tensor:
    """The mean with the transpose; where only one of the two was computed, that one."""
    other = form.T
    mean = (form + other) / 2
    return torch.where(form.isnan(), other, torch.where(other.isnan(), form, mean)).contiguous()
