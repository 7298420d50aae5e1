"""The positional generator of Section 2.1 and Appendix A: finite rotary displacements.

Position acts on a feature as z(p) = e^{pA} z₀, where A is a block-diagonal generator, one 2×2 block
ω·J per rotary plane. A shift by δ displaces z by δAφ1(δA)z exactly; its tangent is δAz. Angles are
formed in float64 from the stored frequencies, and the displacement is evaluated by half angles, so
that neither large positions nor tiny shifts lose digits. Softmax is not treated here.
"""

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import torch
from jaxtyping import Bool, Float
from torch import Tensor
from torch.overrides import handle_torch_function, has_torch_function_unary

from finite_calculus import _checks
from finite_calculus.rounding import constant, together

Layout = Literal["half", "interleaved"]

# Below this angle sin θ − θ is summed as a series: subtraction would lose 2·log2(1/θ) bits.
_SERIES_ANGLE = 1.0
_SERIES_TERMS = 9  # the next term, 1/21!, is below 2^-62 of the first.


@dataclass(frozen=True, eq=False)
class Rotary:
    """Rotary planes of one head: the generator A = diag(ω_r J) of main:rotation.

    `frequencies` are kept as stored (float32 or float64); only their float64 value enters an angle.
    `layout` says how coordinates pair into planes: "half" pairs r with r + planes (Llama, Qwen2),
    "interleaved" pairs 2r with 2r + 1 (GPT-J, GLM). The planes take the 2·planes coordinates from `start`
    on (0 but for latent attention, which rotates the end of a key); the others do not rotate.
    """

    frequencies: Float[Tensor, " planes"]
    head_width: int
    layout: Layout = "half"
    start: int = 0

    def __post_init__(self) -> None:
        _checks.floating("frequencies", self.frequencies)
        _checks.exact_axes("frequencies", self.frequencies, (None,), "(planes,)")
        _checks.finite("frequencies", self.frequencies)
        if 2 * self.planes > self.head_width:
            raise ValueError(
                f"`head_width` must be at least twice the number of planes; got {self.head_width} "
                f"for {self.planes} frequencies. Each plane takes two coordinates."
            )
        if self.layout not in ("half", "interleaved"):
            raise ValueError(
                f"`layout` must be 'half' or 'interleaved'; got {self.layout!r}. "
                f"Llama and Qwen2 use 'half', GPT-J and GLM 'interleaved'."
            )
        if not 0 <= self.start <= self.head_width - 2 * self.planes:
            raise ValueError(
                f"`start` must leave room for {self.planes} planes in {self.head_width} coordinates; got "
                f"{self.start}. It is the first coordinate that rotates."
            )

    @classmethod
    def from_base(
        cls,
        base: float,
        head_width: int,
        *,
        rotary_width: int | None = None,
        layout: Layout = "half",
    ) -> "Rotary":
        """The usual frequencies ω_r = base^(−2r/width) on the first `rotary_width` coordinates."""
        width = head_width if rotary_width is None else rotary_width
        if width % 2 or not 0 <= width <= head_width:
            raise ValueError(
                f"`rotary_width` must be even and between 0 and head_width={head_width}; "
                f"got {width}. Rotations act on pairs of coordinates."
            )
        if not base > 0:
            raise ValueError(f"`base` must be positive; got {base}. RoPE uses 1e4 to 1e6.")
        exponents = torch.arange(0, width, 2, dtype=torch.float64) / width
        return cls(base**-exponents, head_width, layout)

    @property
    def planes(self) -> int:
        """Number of rotary planes."""
        return self.frequencies.shape[-1]


Band = Bool[Tensor, " planes"]
Shift = Float[Tensor, "*shifts"] | float | int


def frequency_bands(rotary: Rotary, sizes: tuple[int, ...]) -> tuple[Band, ...]:
    """Split the planes, sorted from fast to slow, into consecutive bands of the given sizes.

    (22, 21, 21) are the fast, middle and slow bands of 64 planes in Appendix G. Returns one mask over
    planes per band; planes of equal frequency keep their order.
    """
    if sum(sizes) != rotary.planes or any(size < 0 for size in sizes):
        raise ValueError(
            f"`sizes` must be non-negative and sum to the number of planes, {rotary.planes}; "
            f"got {sizes} with sum {sum(sizes)}. For 64 planes the paper uses (22, 21, 21)."
        )
    order = torch.argsort(rotary.frequencies.abs(), descending=True, stable=True)
    bands = []
    for members in torch.split(order, list(sizes)):
        band = torch.zeros(rotary.planes, dtype=torch.bool, device=order.device)
        bands.append(band.index_fill(0, members, True))
    return tuple(bands)


def generator(rotary: Rotary) -> Float[Tensor, "width width"]:
    """The matrix A of main:rotation on column features: J-blocks ω_r [[0, −1], [1, 0]], zero elsewhere."""
    return tangent(
        rotary,
        torch.eye(rotary.head_width, dtype=torch.float64, device=rotary.frequencies.device),
        1.0,
    ).mT


def rotate(
    rotary: Rotary,
    vectors: Float[Tensor, "*batch width"],
    position: Shift,
    *,
    band: Band | None = None,
) -> Float[Tensor, "*lifted width"]:
    """z ↦ e^{pA_b} z (main:rotation): rotate every selected plane by its angle p·ω_r."""
    vectors, angle = together(vectors, plane_angles(rotary, position, band, vectors))
    first, second = split_planes(rotary, vectors)
    cosine, sine = torch.cos(angle).to(vectors.dtype), torch.sin(angle).to(vectors.dtype)
    return _join(rotary, vectors, cosine * first - sine * second, sine * first + cosine * second)


def displacement(
    rotary: Rotary,
    vectors: Float[Tensor, "*batch width"],
    shift: Shift,
    *,
    band: Band | None = None,
) -> Float[Tensor, "*lifted width"]:
    """Exact displacement of a feature under a positional shift (main:central, eq:matrixrho).

    z(p+δ) − z(p) = δAφ1(δA) z = 2 sin(θ/2)[−sin(θ/2) I + cos(θ/2) J] z on each plane, θ = δω:
    the half-angle form keeps every digit of a small rotation, and is zero at ω = 0.
    """
    vectors, angle = together(vectors, plane_angles(rotary, shift, band, vectors))
    first, second = split_planes(rotary, vectors)
    lowered, turned = cos_minus_one(angle).to(vectors.dtype), torch.sin(angle).to(vectors.dtype)
    return _fill(
        rotary, vectors, lowered * first - turned * second, turned * first + lowered * second
    )


def tangent(
    rotary: Rotary,
    vectors: Float[Tensor, "*batch width"],
    shift: Shift,
    *,
    band: Band | None = None,
) -> Float[Tensor, "*lifted width"]:
    """First-order displacement δA z (Section 2.1): the limit of `displacement` for small angles."""
    vectors, angle = together(vectors, plane_angles(rotary, shift, band, vectors))
    first, second = split_planes(rotary, vectors)
    angle = angle.to(vectors.dtype)
    return _fill(rotary, vectors, -angle * second, angle * first)


def phi1_rotary(
    rotary: Rotary,
    vectors: Float[Tensor, "*batch width"],
    shift: Shift,
    *,
    band: Band | None = None,
) -> Float[Tensor, "*lifted width"]:
    """φ1(δA_b) z, the matrix divided difference of main:integrate on the rotary planes.

    φ1(θJ) = (sin θ/θ) I + ((1 − cos θ)/θ) J on a plane and the identity where θ = 0, so that
    δA φ1(δA) z = `displacement` with no inverse of A.
    """
    vectors, angle = together(vectors, plane_angles(rotary, shift, band, vectors))
    first, second = split_planes(rotary, vectors)
    along = _sine_quotient(angle).to(vectors.dtype)
    # (1 − cos θ)/θ as a product, whose derivative at θ = 0 is right: 1/2.
    across = (torch.sin(angle / 2) * _sine_quotient(angle / 2)).to(vectors.dtype)
    return _join(rotary, vectors, along * first - across * second, across * first + along * second)


def chord_norm(
    rotary: Rotary,
    vectors: Float[Tensor, "*batch width"],
    shift: Shift,
) -> Float[Tensor, "*lifted planes"]:
    """Norm of the exact displacement on each plane: 2|sin(θ/2)|·‖z_r‖, never above 2‖z_r‖ (Section 2.1)."""
    vectors, angle = together(vectors, plane_angles(rotary, shift, None, vectors))
    half = torch.sin(angle / 2).abs().to(vectors.dtype)
    return 2 * half * _plane_norms(rotary, vectors)


def tangent_norm(
    rotary: Rotary,
    vectors: Float[Tensor, "*batch width"],
    shift: Shift,
) -> Float[Tensor, "*lifted planes"]:
    """Norm of the tangent step on each plane: |θ|·‖z_r‖, unbounded in θ (Section 2.1)."""
    vectors, angle = together(vectors, plane_angles(rotary, shift, None, vectors))
    return angle.abs().to(vectors.dtype) * _plane_norms(rotary, vectors)


def cos_minus_one(angle: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """cos θ − 1 = −2 sin²(θ/2), without the cancellation of the difference."""
    half = torch.sin(angle.double() / 2)
    return (-2 * (half * half)).to(angle.dtype)


def sin_minus_angle(angle: Float[Tensor, "*shape"]) -> Float[Tensor, "*shape"]:
    """sin θ − θ, by its series −θ³/6 + θ⁵/120 − … for small angles."""
    if has_torch_function_unary(angle):
        return handle_torch_function(sin_minus_angle, (angle,), angle)
    wide = angle.double()
    small = wide.abs() <= _SERIES_ANGLE
    near = torch.where(small, wide, 0.0)
    square = near * near
    total = torch.zeros_like(near)
    for n in reversed(range(1, _SERIES_TERMS + 1)):
        total = (1 - square * total) / ((2 * n) * (2 * n + 1))
    return torch.where(small, -near * square * total, torch.sin(wide) - wide).to(angle.dtype)


def _sine_quotient(angle: Tensor) -> Tensor:
    """sin θ/θ, and 1 at θ = 0, where its derivative is zero."""
    safe = torch.where(angle == 0, 1.0, angle)
    return torch.where(angle == 0, 1.0, torch.sin(safe) / safe)


def plane_angles(rotary: Rotary, shift: Shift, band: Band | None, vectors: Tensor) -> Tensor:
    """θ_r = δ·ω_r in float64, zero outside the band; tracked if the vectors to be turned are."""
    _checks.one_device(rotary=rotary.frequencies, vectors=vectors)
    frequencies, _ = together(rotary.frequencies.double(), vectors)
    if band is not None:
        if tuple(band.shape) != (rotary.planes,) or band.dtype != torch.bool:
            raise ValueError(
                f"`band` must be a boolean mask over the {rotary.planes} planes; got shape "
                f"{tuple(band.shape)} of {band.dtype}. Build it with frequency_bands."
            )
        frequencies = torch.where(band.to(frequencies.device), frequencies, 0.0)
    amount = shift_amount(shift, frequencies.device)
    _checks.finite("shift", amount)
    return amount.unsqueeze(-1) * frequencies


def shift_amount(shift: Shift, device: torch.device) -> Tensor:
    """A shift in float64, with the error that it has: torch.as_tensor would drop that."""
    if isinstance(shift, Tensor):
        return shift.to(device, torch.float64)
    return torch.tensor(shift, dtype=torch.float64, device=device)


def score_scaling(rotary: Rotary, scaling: float | None, like: Tensor) -> Tensor | float:
    """1/τ as given, or 1/√width; this is a rounded number, and its error is that of s = 1/√w − gap:

    |gap| = |s² − 1/w|/(s + 1/√w), which is below |s² − 1/w|/s and zero where √w is a power of two.
    """
    if scaling is not None:
        return scaling
    rounded = 1 / math.sqrt(rotary.head_width)
    exact = Fraction(rounded)
    return constant(rounded, abs(exact * exact - Fraction(1, rotary.head_width)) / exact, like)


def _plane_coordinates(rotary: Rotary) -> tuple[slice, slice]:
    """Positions of the first and second coordinate of every plane."""
    start, end = rotary.start, rotary.start + 2 * rotary.planes
    if rotary.layout == "half":
        return slice(start, start + rotary.planes), slice(start + rotary.planes, end)
    return slice(start, end, 2), slice(start + 1, end, 2)


def split_planes(rotary: Rotary, vectors: Tensor, name: str = "vectors") -> tuple[Tensor, Tensor]:
    _checks.floating(name, vectors)
    _checks.last_axes(name, vectors, (rotary.head_width,), "(..., head_width)")
    first, second = _plane_coordinates(rotary)
    return vectors[..., first], vectors[..., second]


def _plane_norms(rotary: Rotary, vectors: Tensor) -> Tensor:
    first, second = split_planes(rotary, vectors)
    return torch.hypot(first, second)


def _fill(rotary: Rotary, vectors: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Planes put back in place, zero in the coordinates that do not rotate."""
    return _join(rotary, torch.zeros_like(vectors), first, second)


def _join(rotary: Rotary, vectors: Tensor, first: Tensor, second: Tensor) -> Tensor:
    """Planes put back in place, the remaining coordinates taken from `vectors`."""
    lifted = vectors.expand(*first.shape[:-1], vectors.shape[-1])
    before, after = lifted[..., : rotary.start], lifted[..., rotary.start + 2 * rotary.planes :]
    if rotary.layout == "half":
        return torch.cat([before, first, second, after], -1)
    paired = torch.stack([first, second], -1).flatten(-2)
    return torch.cat([before, paired, after], -1)
