"""Figures of the calculus itself: nothing in them was measured on a model."""

import math

from finite_calculus.harness.figures import Figure, Panel, Series


def workflow() -> str:
    """The way of an edit from construction to execution, as SVG."""
    return (
        files("finite_calculus.report")
        .joinpath("assets", "workflow.svg")
        .read_text(encoding="utf-8")
    )


def _geometry() -> Figure:
    angles = tuple(math.pi * n / 60 for n in range(121))
    plane = Panel(
        "lines",
        "angle θ (radians)",
        "displacement over ‖z‖",
        (
            Series("finite response", angles, tuple(2 * abs(math.sin(a / 2)) for a in angles)),
            Series("tangent", angles, angles),
        ),
        title="one rotary plane",
    )
    readout = Panel(
        "lines",
        "angle θ (radians)",
        "change of the readout",
        (
            Series("finite response", angles, tuple(_sigmoid(math.sin(a)) - 0.5 for a in angles)),
            Series("tangent", angles, tuple(a / 4 for a in angles)),
        ),
        title="two keys, scores sin θ and 0, values 1 and 0",
    )
    return Figure(
        "rotary-geometry",
        "A finite rotation and its tangent",
        "Left: the chord 2·|sin(θ/2)| that a rotary plane really moves, and the tangent step θ. Right: what "
        "softmax makes of it with two keys: σ(sin θ) − ½ against θ/4. Computed from the formulas; no "
        "model is involved.",
        (plane, readout),
    )


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


EXPLAINED = (_geometry(),)
