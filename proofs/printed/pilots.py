"""Derived figures of the two pilots: the initial single-layer study and the regression.

The pilots' correlations, training errors and numerical checks have no printed inputs and
are left out.
"""

from proofs.printed import tables
from proofs.printed.figure import Figure, bracket, negative, same, singles, span

WHERE, LABEL = "app:jointinitial", "tab:jointattribution"

DERIVED = """
initial exact below separate  | 95.0%     | reduction 0.004075 0.081529
initial exact below quadratic | 92.7%     | reduction 0.004075 0.056043
initial exact minus separate  | -0.077455 | difference 0.004075 0.081529
initial exact minus quadratic | -0.051969 | difference 0.004075 0.056043
initial slots found           | 96.88%    | ratio 62 64
initial signs found           | 99.22%    | ratio 254 256
"""


def initial() -> list[Figure]:
    """Reductions, differences with their brackets, counts, the dense control."""
    separate = ("-0.077455", "-0.093958", "-0.062308")
    quadratic = ("-0.051969", "-0.065922", "-0.039547")
    return [
        *same("dense control", LABEL, tables.INITIAL[("dense",)], tables.INITIAL[("exact",)]),
        *singles(WHERE, DERIVED),
        bracket("initial exact minus separate", WHERE, separate),
        bracket("initial exact minus quadratic", WHERE, quadratic),
        negative("initial exact minus separate", WHERE, separate[2]),
        negative("initial exact minus quadratic", WHERE, quadratic[2]),
        *whole_counts(),
        *triangles(),
    ]


def whole_counts() -> list[Figure]:
    """Recall in whole slots of 64 and sign accuracy in whole effects of 256."""
    lines = [
        f"initial {word} of {predictor} | {percent} | ratio 1 {total}"
        for (predictor,), (_, recall, sign) in tables.INITIAL.items()
        for word, percent, total in (("recall", recall, 64), ("sign accuracy", sign, 256))
    ]
    return singles(LABEL, "\n".join(lines), relation="multiple")


def triangles() -> list[Figure]:
    """Interaction and joint errors differ by at most the key-only plus the value-only error.

    By eq:jointdownstreamfactorial the executed interaction is the joint minus the key minus
    the value effect, so the errors subtract alike. The paper does not state the inequality.
    """
    errors = {"exact": "0.007424", "quadratic": "0.059019", "separate": "0.084483"}
    lines = [
        f"triangle inequality of {word} | 0 | slack {error} {joint} 0.005767 0.002422"
        for word, error in errors.items()
        for joint in tables.INITIAL[(word,)][:1]
    ]
    return singles(WHERE, "\n".join(lines), relation="above")


def regression() -> list[Figure]:
    """Ranges of cosines over the three seeds."""
    ends = {"linear": "0.994 0.997", "softmax": "0.963 0.965", "rope": "0.823 0.965"}
    figures = []
    for (architecture,), cells in tables.REGRESSION.items():
        seeds = [(cell,) for cell in cells[:3]]
        figures += span(f"cosine {architecture}", "tab:gdregression", ends[architecture], seeds)
    return figures
