"""References for rotary features, from the definition: rotate by cosine and sine, then subtract."""

from typing import Any

from proofs.references.vectors import Number, Vector, dot, sub


def pairs(planes: int, layout: str) -> list[tuple[int, int]]:
    """Coordinates of each plane."""
    if layout == "half":
        return [(r, r + planes) for r in range(planes)]
    return [(2 * r, 2 * r + 1) for r in range(planes)]


def angles(num: Any, frequencies: Vector, shift: Number, band: list[bool]) -> Vector:
    """δω on the band, zero elsewhere."""
    return [
        shift * w if inside else num.real(0.0) for w, inside in zip(frequencies, band, strict=True)
    ]


def rotate(num, frequencies, layout, vector, shift, band, **_) -> Vector:
    """e^{δA_b} z."""
    turned = list(vector)
    for theta, (i, j) in zip(
        angles(num, frequencies, shift, band), pairs(len(frequencies), layout), strict=True
    ):
        c, s = num.cos(theta), num.sin(theta)
        turned[i], turned[j] = c * vector[i] - s * vector[j], s * vector[i] + c * vector[j]
    return turned


def displacement(num, vector, **case) -> Vector:
    """e^{δA_b} z − z."""
    return sub(rotate(num, vector=vector, **case), vector)


def tangent(num, frequencies, layout, vector, shift, band, **_) -> Vector:
    """δA_b z."""
    image = [num.real(0.0)] * len(vector)
    for theta, (i, j) in zip(
        angles(num, frequencies, shift, band), pairs(len(frequencies), layout), strict=True
    ):
        image[i], image[j] = -theta * vector[j], theta * vector[i]
    return image


def phi1_rotary(num, frequencies, layout, vector, shift, band, **_) -> Vector:
    """∫₀¹ e^{tδA_b} z dt, integrated plane by plane."""
    averaged = list(vector)
    for theta, (i, j) in zip(
        angles(num, frequencies, shift, band), pairs(len(frequencies), layout), strict=True
    ):
        if theta == 0:
            continue
        along, across = num.sin(theta) / theta, (num.real(1.0) - num.cos(theta)) / theta
        averaged[i] = along * vector[i] - across * vector[j]
        averaged[j] = across * vector[i] + along * vector[j]
    return averaged


def chord_norm(num, frequencies, layout, vector, shift, **case) -> Vector:
    """‖z(p+δ) − z(p)‖ on each plane."""
    everything = [True] * len(frequencies)
    chord = displacement(
        num, vector=vector, frequencies=frequencies, layout=layout, shift=shift, band=everything
    )
    return _norms(num, chord, len(frequencies), layout)


def tangent_norm(num, frequencies, layout, vector, shift, **case) -> Vector:
    """‖δAz‖ on each plane."""
    everything = [True] * len(frequencies)
    image = tangent(num, frequencies, layout, vector, shift, everything)
    return _norms(num, image, len(frequencies), layout)


def score_scale(num, vector: Vector, scaling: Number | None) -> Number:
    """1/τ, by default 1/√width."""
    if scaling is not None:
        return scaling
    return num.real(1.0) / num.sqrt(num.real(float(len(vector))))


def key_shift_scores(num, query, keys, scaling, **case) -> Vector:
    """q̃·(k̃' − k̃)·scaling for every key."""
    shifts = [displacement(num, **{**case, "vector": key}) for key in keys]
    return [dot(num, query, change) * score_scale(num, query, scaling) for change in shifts]


def key_shift_scores_linear(num, query, keys, scaling, **case) -> Vector:
    """q̃·(δA_b k̃)·scaling for every key."""
    shifts = [tangent(num, **{**case, "vector": key}) for key in keys]
    return [dot(num, query, change) * score_scale(num, query, scaling) for change in shifts]


def key_shift_scores_remainder(num, **case) -> Vector:
    """Exact increments minus tangent increments."""
    return sub(key_shift_scores(num, **case), key_shift_scores_linear(num, **case))


def _norms(num: Any, vector: Vector, planes: int, layout: str) -> Vector:
    return [
        num.sqrt(vector[i] * vector[i] + vector[j] * vector[j]) for i, j in pairs(planes, layout)
    ]
