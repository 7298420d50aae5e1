"""Derived figures of the joint study: the sweep over six settings, and the timings.

Covers the abstract, the introduction and the experiments section as far as they speak of
joint edits, and the appendix study with its supplement.
"""

from proofs.printed import tables
from proofs.printed.figure import (
    Figure,
    bracket,
    columns,
    negative,
    ranges,
    repeats,
    rowwise,
    same,
    singles,
)

MAIN, APPENDIX = "main:experiments", "sec:jointexperiment"
TEXT = f"{MAIN}, {APPENDIX}"
OPENING = f"abstract, main:introduction, {MAIN}"
DEEP, NARROWEST = ("1.5B", "retrieval", "21"), ("1.5B", "sst2", "14")

DERIVED_RANGES = """
exact below separate        | 89.3% 99.6%    | reduction tab:jointcoverage 4 2 |
interaction correlation     | 0.9970 0.99999 | value tab:jointfactorial 2 |
slower at one strength      | 18.2% 21.0%    | excess tab:jointruntimes 1 0 |
faster at three strengths   | 18.0% 21.8%    | reduction tab:jointruntimes 3 2 |
"""
QUADRATIC = "exact below quadratic | 75.9% 98.5% | reduction tab:jointcoverage 4 3 |"
SPEEDUP = "speedup at three strengths | 1.22 1.28 | ratio tab:jointruntimes 2 3 |"
COPIED_RANGES = """
exact interaction error     | 4.52e-6 0.008826 | value tab:jointfactorial 0 |
quadratic interaction error | 2.96e-4 0.092810 | value tab:jointfactorial 1 |
"""
# Counts of 64 top slots, of 256 signs, of 32 prompts.
WHOLE_COUNTS = """
least top-two recall         | 98.44% | ratio 1 64
least sign accuracy          | 99.22% | ratio 1 256
baseline 0.5B retrieval      | 46.88% | ratio 1 32
baseline 0.5B sst2           | 59.38% | ratio 1 32
baseline 1.5B retrieval      | 96.88% | ratio 1 32
baseline 1.5B sst2           | 87.50% | ratio 1 32
"""
NATIVE = """
native scoring speedup       | 2.75  | ratio 0.925 0.336
native slower, one strength  | 21.0% | excess 2.521 2.083
native faster, three         | 18.0% | reduction 3.292 4.014
native speedup, three        | 1.22  | ratio 4.014 3.292
"""


def sweep() -> list[Figure]:
    """Errors of the six settings: repeats, ranges, whole counts."""
    deep, narrow = tables.JOINT_COVERAGE[DEEP], tables.JOINT_COVERAGE[NARROWEST]
    return [
        *repeats("main:jointtable", columns(tables.JOINT_COVERAGE, 2, 3, 4)),
        *same("deep setting", APPENDIX, ("0.107864", "0.087683", "0.007844"), deep[2:]),
        *same("narrowest setting", APPENDIX, ("0.003194", "0.001418", "0.000342"), narrow[2:]),
        *ranges(f"abstract, {TEXT}", QUADRATIC),
        *ranges(TEXT, DERIVED_RANGES),
        *ranges(APPENDIX, COPIED_RANGES, relation="identical"),
        *singles(APPENDIX, WHOLE_COUNTS, relation="multiple"),
        *same("discrepancies", MAIN, ("1.31e-14", "2.60e-6"), ("1.31e-14", "2.60e-6")),
        *same("positional checks", MAIN, ("1,166,880",), ("1,166,880",)),
    ]


def orderings() -> list[Figure]:
    """Statements that one error exceeds another, as ratios, gaps and counts of settings."""
    rows = tables.JOINT_COVERAGE
    factors = tuple(columns(rows, 2, 4))
    lowest = tuple((row[4], other) for row in rows.values() for other in row[:4])
    worse = tuple(columns(rows, 0, 2))
    _, _, _, quadratic, exact = rows[NARROWEST]
    gains = tuple(
        (exact, quadratic, cells[4], cells[3]) for key, cells in rows.items() if key != NARROWEST
    )
    return [
        Figure("factor of nine", OPENING, "9", factors, "ratio", "minimum", "above"),
        Figure("exact lowest", APPENDIX, "24", lowest, "difference", "negatives", "identical"),
        Figure("zero beats separate", APPENDIX, "2", worse, "difference", "negatives", "identical"),
        Figure("narrowest gain", APPENDIX, "0", gains, "reduction gap", "maximum", "below"),
    ]


def paired() -> list[Figure]:
    """Exact minus comparator, its bracket, and the bracket's sign."""
    where = "tab:jointpaired"
    figures = []
    for key, cells in tables.JOINT_PAIRED.items():
        separate, quadratic, exact = tables.JOINT_COVERAGE[key][2:]
        comparators = (("separate", separate, cells[:3]), ("quadratic", quadratic, cells[3:]))
        for word, other, triple in comparators:
            name = f"exact minus {word}: {' '.join(key)}"
            figures.append(Figure(name, where, triple[0], ((exact, other),), "difference"))
            figures.append(bracket(name, where, triple))
            figures.append(negative(name, where, triple[2]))
    return figures


def strengths() -> list[Figure]:
    """Errors at the strengths 0.1, 0.5 and 1, where the last is the deep setting's."""
    exact = ("0.000173", "0.002330", tables.JOINT_COVERAGE[DEEP][4])
    quadratic = ("0.000237", "0.013071", tables.JOINT_COVERAGE[DEEP][3])
    steps = tuple(
        (quadratic[i], exact[i], quadratic[i + 1], exact[i + 1]) for i in range(len(exact) - 1)
    )
    small, low, high = "-6.34e-5", "-1.09e-4", "-2.88e-5"
    difference = ((exact[0], quadratic[0]),)
    return [
        *same("exact by strength", TEXT, ("0.000173", "0.002330", "0.007844"), exact),
        *same("quadratic by strength", TEXT, ("0.000237", "0.013071", "0.087683"), quadratic),
        Figure("difference at 0.1", APPENDIX, small, difference, "difference"),
        bracket("difference at 0.1", APPENDIX, (small, low, high)),
        negative("difference at 0.1", APPENDIX, high),
        Figure("gap grows", TEXT, "0", steps, "difference gap", "maximum", "below"),
    ]


def runtimes() -> list[Figure]:
    """Ratios of every case, and the native case as quoted."""
    native = tables.RUNTIMES[("native", "112", "8")]
    return [
        *rowwise("dense over sparse, one", "tab:jointruntimes", 4, (0, 1), "ratio"),
        *rowwise("dense over sparse, three", "tab:jointruntimes", 5, (2, 3), "ratio"),
        *same("native times", TEXT, ("2.083", "2.521", "4.014", "3.292"), native[:4]),
        *ranges(APPENDIX, SPEEDUP),
        *singles(APPENDIX, NATIVE),
    ]
