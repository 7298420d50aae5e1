"""Derived figures of the positional study: errors, angles, interactions, deletion, repair.

Covers the abstract, the introduction and the experiments section as far as they speak of
positional edits, and the appendix study with its tables. Reductions by layer or by size of
the response are left out because the errors behind them are not printed.
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
    span,
)

MAIN, APPENDIX = "main:experiments", "sec:positionalapplications"
TEXT = f"{MAIN}, {APPENDIX}"
OPENING = f"abstract, main:introduction, {TEXT}"

# Ranges that need arithmetic or rounding, by place.
TEXT_DERIVED = """
Jacobian below zero, middle, 16 | 94.0% 94.8% | reduction tab:allbandstrata 1 2 | middle 16
four entries below second order | 19.8% 54.9% | reduction tab:precisionrepair 2 3 |
"""
APPENDIX_DERIVED = """
deletion sign accuracy          | 98.4% 99.5% | value tab:deletionattribution 4 |
zero error, middle, 128, short  | 0.028 0.039 | value tab:allbandstrata 2 | middle 128
"""
# Ranges whose ends are cells of a table, by place.
TEXT_COPIED = """
finite error, slow, 16             | 4e-6 6e-6         | value tab:allbandstrata 0 | slow 16
Jacobian error, slow, 16           | 4e-6 6e-6         | value tab:allbandstrata 1 | slow 16
band interaction, 16               | 3.33% 9.20%       | value tab:bandinteraction 0 |
band interaction, 128              | 16.20% 26.94%     | value tab:bandinteraction 3 |
deletion rank correlation          | 0.950 0.989       | value tab:deletionattribution 0 |
"""
MAIN_COPIED = """
finite error, middle, 16           | 4.0e-5 6.4e-5     | value tab:allbandstrata 0 | middle 16
finite error, middle, 128          | 0.002112 0.003543 | value tab:allbandstrata 0 | middle 128
Jacobian error, middle, 128        | 0.016428 0.027925 | value tab:allbandstrata 1 | middle 128
zero error, middle, 128            | 0.027545 0.038921 | value tab:allbandstrata 2 | middle 128
"""
APPENDIX_COPIED = """
finite below Jacobian, middle, 16  | 72.9% 85.9%       | value tab:middleprediction 3 | 16
finite below Jacobian, middle, 128 | 80.2% 92.0%       | value tab:middleprediction 3 | 128
"""
ONE_ENTRY = {
    ("corrupt", "4"): ("4.86%", "-0.05475", "-0.03639"),
    ("ordered", "2"): ("8.13%", "-0.06828", "-0.06791"),
    ("sst2", "4"): ("6.67%", "-0.07357", "-0.04182"),
}


def overall() -> list[Figure]:
    """Errors over all edits: means of the strata, reductions, brackets, ranges."""
    phase = tables.PHASE_PREDICTION
    zero, jacobian = columns(phase, 0, 2), columns(phase, 0, 1)
    signs = [("96.52%",), ("95.36%",), ("96.40%",)]
    return [
        *repeats("main:phasetable", columns(phase, *range(6))),
        *strata_means(),
        *rowwise("finite below zero", "tab:phaseprediction", 3, (0, 2), "reduction"),
        *span("finite below zero", f"abstract, {APPENDIX}", "36.2% 50.9%", zero, "reduction"),
        *span("finite below Jacobian", OPENING, "73.6% 82.5%", jacobian, "reduction"),
        *span("sign accuracy", OPENING, "95.36% 96.52%", signs, relation="identical"),
        *zero_brackets(),
    ]


def strata_means() -> list[Figure]:
    """Each overall error is the mean over its eight equally large strata."""
    figures = []
    for (task,), cells in tables.PHASE_PREDICTION.items():
        for index, predictor in enumerate(("finite", "Jacobian", "zero")):
            strata = columns(tables.BAND_STRATA, index, having=(task,))
            inputs = (tuple(cell for (cell,) in strata),)
            name = f"mean of strata: {task} {predictor}"
            figures.append(Figure(name, "tab:phaseprediction", cells[index], inputs, "mean"))
    return figures


def zero_brackets() -> list[Figure]:
    """Brackets of the relative and of the absolute difference from the zero predictor."""
    ends = (("-0.03040", "-0.02789"), ("-0.03401", "-0.03174"), ("-0.03291", "-0.02906"))
    figures = []
    for (key, cells), (low, high) in zip(tables.PHASE_PREDICTION.items(), ends, strict=True):
        difference = (cells[0], cells[2], low, high)
        name = f"finite minus zero: {' '.join(key)}"
        figures.append(bracket(f"finite below zero: {' '.join(key)}", APPENDIX, cells[3:]))
        figures.append(bracket(name, APPENDIX, difference, "difference clearance"))
        figures.append(negative(name, APPENDIX, high))
    return figures


def angles() -> list[Figure]:
    """Shift times the largest frequency of each band, base 10^6 and width 128."""
    # The 22 fast planes are 0 to 21 and the 21 middle planes 22 to 42.
    first_planes = {"fast": "0", "middle": "22", "slow": "43"}
    figures = []
    for (band,), cells in tables.ANGLES.items():
        for shift, printed in zip(("16", "128"), cells, strict=True):
            inputs = ((shift, "1,000,000", "128", first_planes[band]),)
            figures.append(Figure(f"angle: {band} {shift}", "tab:angles", printed, inputs, "angle"))
    (middle, _), (slow, _) = tables.ANGLES[("middle",)], tables.ANGLES[("slow",)]
    return [
        *figures,
        *singles(MAIN, "angle, fewer digits | 16 | value 16.000"),
        *same("angle", MAIN, ("0.1386", "0.001489"), (middle, slow)),
    ]


def bands() -> list[Figure]:
    """The middle band's table against the full strata, and its brackets."""
    middle = tables.MIDDLE_PREDICTION
    ends = (("71.1%", "74.6%"), ("85.4%", "86.3%"), ("82.0%", "84.7%"))
    near = zip(columns(middle, 3, having=("16",)), ends, strict=True)
    return [
        *repeats(
            "tab:middleprediction",
            [tables.BAND_STRATA[(task, "middle", shift)] for task, shift in middle],
        ),
        *rowwise("finite below Jacobian", "tab:middleprediction", 3, (0, 1), "reduction"),
        *(bracket(f"middle band, 16, {row[0]}", APPENDIX, row + pair) for row, pair in near),
    ]


def components() -> list[Figure]:
    """Ranges over tables, brackets of band interactions, projections that add up to one."""
    content = tables.PHASE_CONTENT
    deep = columns(content, 1, having=("14",)) + columns(content, 1, having=("21",))
    return [
        *ranges(TEXT, TEXT_DERIVED),
        *ranges(APPENDIX, APPENDIX_DERIVED),
        *ranges(TEXT, TEXT_COPIED, relation="identical"),
        *ranges(MAIN, MAIN_COPIED, relation="identical"),
        *ranges(APPENDIX, APPENDIX_COPIED, relation="identical"),
        *span("context projection", TEXT, "0.935 0.976", deep, relation="identical"),
        *rowwise("interaction projection", "tab:phasecontent", 2, (0, 1), "rest"),
        *(
            bracket(f"band interaction: {' '.join(key)} {shift}", "tab:bandinteraction", cells)
            for key, row in tables.BAND_INTERACTION.items()
            for shift, cells in (("16", row[:3]), ("128", row[3:]))
        ),
    ]


def repair() -> list[Figure]:
    """Precision restoration of one entry: reductions, brackets, wins and ties."""
    figures = []
    for key, (percent, low, high) in ONE_ENTRY.items():
        name, pair = f"one entry: {' '.join(key)}", tables.PRECISION_REPAIR[key][:2]
        figures.append(Figure(name, TEXT, percent, (pair,), "reduction"))
        figures.append(bracket(name, APPENDIX, (*pair, low, high), "difference clearance"))
        figures.append(negative(name, TEXT, high))
    pairs = tuple(columns(tables.PRECISION_REPAIR, 0, 1))
    return [
        *figures,
        Figure("one entry, wins", TEXT, "5", pairs, "difference", "negatives", "identical"),
        Figure("one entry, ties", TEXT, "1", pairs, "difference", "zeros", "identical"),
    ]
