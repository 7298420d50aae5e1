"""Figures of the calculus itself: nothing in them was measured on a model."""

import math
from pathlib import Path

from finite_calculus.harness.figures import Figure, Panel, Series


def workflow() -> str:
    """The way of an edit from construction to execution, as SVG."""
    return Path(__file__).with_name("assets").joinpath("workflow.svg").read_text(encoding="utf-8")


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


def _score_edit() -> Figure:
    edits = tuple(n / 10 for n in range(-60, 61))
    series = (
        Series("finite response", edits, tuple(moved(d) - SHARE for d in edits)),
        Series("tangent", edits, tuple(SHARE * (1 - SHARE) * d for d in edits)),
    )
    panel = Panel("lines", "increment d of a score", "change of the key's probability", series)
    return Figure(
        "score-edit",
        "A finite edit of a score and its tangent",
        f"A key that holds {SHARE:.0%} of the attention. Its probability cannot leave the interval from 0 to "
        "1: the finite response p·(eᵈ/Z − 1) bends, its tangent p·(1 − p)·d goes on.",
        (panel,),
    )


def _joint_terms() -> Figure:
    strengths = tuple(n / 50 for n in range(51))
    terms = [joint_terms(a) for a in strengths]
    names = ("key response", "value response", "interaction", "total")
    series = tuple(
        Series(name, strengths, tuple(each[n] for each in terms)) for n, name in enumerate(names)
    )
    panel = Panel("lines", "strength of the edit", "change of the readout", series)
    return Figure(
        "joint-terms",
        "Keys and values together: the sum of two attributions is not the whole",
        f"A key with {SHARE:.0%} of the attention and value 1 beside one with value 0; at full strength its "
        f"score rises by {RISE:g} and its value falls by {FALL:g}. The key response moves the old value, "
        "the value response changes it under the old attention, and the interaction is the new value under "
        "the attention that is new. The three sum to the total exactly.",
        (panel,),
    )


def _certificate() -> Figure:
    edits = tuple(n / 50 for n in range(-200, 201) if n)
    errors, bounds = zip(*(first_order_error(d) for d in edits), strict=True)
    series = (Series("certified bound", edits, bounds), Series("actual error", edits, errors))
    panel = Panel(
        "lines", "increment d of a score", "error of the first order", series, y_scale="log"
    )
    return Figure(
        "certificate",
        "What the first order can get wrong is bounded",
        "The same key. The error of the tangent is at most KL(p‖p′) times the largest distance of a value "
        "from the readout. The bound needs no second evaluation and holds for edits of any size.",
        (panel,),
    )


def _bands() -> Figure:
    planes = tuple(float(n) for n in range(PLANES))
    series = tuple(
        Series(
            f"shift {shift}",
            planes,
            tuple(2 * abs(math.sin(shift * _frequency(n) / 2)) for n in range(PLANES)),
        )
        for shift in (1, 16, 128)
    )
    panel = Panel(
        "lines", "rotary plane, fast to slow", "displacement over ‖z‖", series, y_scale="log"
    )
    return Figure(
        "rotary-planes",
        "What a shift of position does to each rotary plane",
        f"Chords 2·|sin(δω/2)| of the {PLANES} planes of a head of width {2 * PLANES} with base 10,000. Fast "
        "planes turn through many circles, where a tangent says nothing; slow ones hardly move.",
        (panel,),
    )


def _deletion() -> Figure:
    masses = tuple(n / 100 for n in range(1, 96))
    series = (
        Series("deleted", masses, tuple(deletion(p) for p in masses)),
        Series("first order", masses, masses),
    )
    panel = Panel(
        "lines", "attention that the key holds", "‖change of the readout‖ over ‖v − y‖", series,
        y_scale="log",
    )  # fmt: skip
    return Figure(
        "deletion",
        "Deleting a key",
        "Without the key the others share its attention: the readout moves by p/(1 − p) of the distance from "
        "the key's value. First order says p, which is right for a key that hardly matters.",
        (panel,),
    )


# The key of the examples: its share of the attention, and what an edit of full strength does to it.
SHARE, RISE, FALL = 0.2, 3.0, 0.8
PLANES = 32


def moved(d: float) -> float:
    """The probability of the key once its score is raised by d."""
    return SHARE * math.exp(d) / (1 - SHARE + SHARE * math.exp(d))


def joint_terms(strength: float) -> tuple[float, float, float, float]:
    """Key response, value response, interaction and total of a joint edit of part strength."""
    change, value = moved(strength * RISE) - SHARE, -strength * FALL
    return change, SHARE * value, change * value, moved(strength * RISE) * (1 + value) - SHARE


def first_order_error(d: float) -> tuple[float, float]:
    """The error of the tangent, and KL(p‖p′)·max|a| that bounds it."""
    new = moved(d)
    divergence = SHARE * math.log(SHARE / new) + (1 - SHARE) * math.log((1 - SHARE) / (1 - new))
    error = abs(new - SHARE - SHARE * (1 - SHARE) * d)
    return error, divergence * max(SHARE, 1 - SHARE)


def deletion(p: float) -> float:
    """How far the readout moves when a key with attention p goes, over its distance from the readout."""
    return p / (1 - p)


def _frequency(plane: int) -> float:
    return 10_000 ** (-plane / PLANES)


def _sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


EXPLAINED = (
    _geometry(),
    _score_edit(),
    _joint_terms(),
    _certificate(),
    _bands(),
    _deletion(),
)
