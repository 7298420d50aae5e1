"""The numbers in the paper's tables, as printed, for the audit in `proofs/printed/arithmetic.py`.

Each table is a block of text, one row per line: the words that name the row, then its
cells in the paper's column order. Cells stay strings because the number of printed
digits is what the audit works with; a comma groups thousands, `e` stands for a power of
ten and `%` for a percentage. This file derives nothing, and figures that occur only in
running text are not here but beside the claims that use them.
"""

from collections.abc import Mapping

Cells = tuple[str, ...]
Table = Mapping[Cells, Cells]


def table(text: str, names: int) -> Table:
    """Split a block into rows keyed by their first `names` words; refuses a repeated key."""
    split = [tuple(line.split()) for line in text.strip().splitlines()]
    rows = {cells[:names]: cells[names:] for cells in split}
    if len(rows) != len(split):
        raise ValueError(f"`text` must name each row once; got {len(split) - len(rows)} repeats.")
    if len({len(cells) for cells in rows.values()}) != 1:
        raise ValueError(f"`text` must have equally long rows; got {sorted(map(len, split))}.")
    return rows


# Finite, Jacobian, zero, reduction against zero and its bracket.
MAIN_PHASE = table(
    """
    corrupt 0.02808 0.16028 0.05724 50.9% 48.2% 53.7%
    ordered 0.05786 0.21897 0.09073 36.2% 35.0% 37.5%
    sst2    0.03585 0.15426 0.06681 46.3% 43.1% 49.9%
    """,
    names=1,
)
PHASE_PREDICTION = table(
    """
    corrupt 0.02808 0.16028 0.05724 50.9% 48.2% 53.7%
    ordered 0.05786 0.21897 0.09073 36.2% 35.0% 37.5%
    sst2    0.03585 0.15426 0.06681 46.3% 43.1% 49.9%
    """,
    names=1,
)

# Largest angle at shift 16 and at shift 128.
ANGLES = table(
    """
    fast   16.000   128.000
    middle 0.1386   1.1084
    slow   0.001489 0.011911
    """,
    names=1,
)

# Finite, Jacobian, zero, reduction against the Jacobian.
MIDDLE_PREDICTION = table(
    """
    corrupt 16  0.000064 0.000236 0.004576 72.9%
    ordered 16  0.000057 0.000402 0.007160 85.9%
    sst2    16  0.000040 0.000241 0.004042 83.4%
    corrupt 128 0.003543 0.017862 0.031212 80.2%
    ordered 128 0.002239 0.027925 0.038921 92.0%
    sst2    128 0.002112 0.016428 0.027545 87.1%
    """,
    names=2,
)

# Finite, Jacobian, zero.
BAND_STRATA = table(
    """
    corrupt fast   16  0.001026 0.066144 0.024164
    corrupt fast   128 0.108527 0.567056 0.166353
    corrupt middle 16  0.000064 0.000236 0.004576
    corrupt middle 128 0.003543 0.017862 0.031212
    corrupt slow   16  0.000006 0.000006 0.000119
    corrupt slow   128 0.000006 0.000009 0.000953
    corrupt all    16  0.001391 0.066527 0.026921
    corrupt all    128 0.110114 0.564376 0.203602
    ordered fast   16  0.089449 0.174306 0.140993
    ordered fast   128 0.131197 0.681604 0.177739
    ordered middle 16  0.000057 0.000402 0.007160
    ordered middle 128 0.002239 0.027925 0.038921
    ordered slow   16  0.000004 0.000004 0.000222
    ordered slow   128 0.000005 0.000014 0.001787
    ordered all    16  0.080270 0.164970 0.138236
    ordered all    128 0.159647 0.702497 0.220769
    sst2    fast   16  0.002061 0.056467 0.022879
    sst2    fast   128 0.143155 0.557336 0.218531
    sst2    middle 16  0.000040 0.000241 0.004042
    sst2    middle 128 0.002112 0.016428 0.027545
    sst2    slow   16  0.000006 0.000006 0.000169
    sst2    slow   128 0.000006 0.000010 0.001353
    sst2    all    16  0.002239 0.056709 0.024750
    sst2    all    128 0.137185 0.546868 0.235175
    """,
    names=3,
)

# Share at shift 16 and its bracket, share at shift 128 and its bracket.
BAND_INTERACTION = table(
    """
    corrupt 0  9.20% 9.11% 9.28% 23.92% 23.21% 24.58%
    corrupt 14 3.33% 3.30% 3.36% 18.96% 18.91% 19.01%
    corrupt 21 4.78% 4.73% 4.82% 17.22% 17.06% 17.41%
    ordered 0  5.31% 5.31% 5.32% 26.94% 26.86% 27.02%
    ordered 14 5.61% 5.59% 5.63% 19.43% 19.41% 19.45%
    ordered 21 4.96% 4.93% 4.99% 16.20% 16.13% 16.27%
    sst2    0  6.81% 6.61% 7.02% 24.53% 23.82% 25.29%
    sst2    14 3.44% 3.38% 3.50% 22.97% 22.67% 23.29%
    sst2    21 5.05% 4.90% 5.20% 25.40% 24.91% 25.91%
    """,
    names=2,
)

# Phase, context, interaction.
PHASE_CONTENT = table(
    """
    corrupt 0   1.000 0.000  0.000
    corrupt 14  0.099 0.935 -0.034
    corrupt 21  0.028 0.964  0.009
    ordered 0   1.000 0.000  0.000
    ordered 14 -0.024 0.945  0.079
    ordered 21 -0.004 0.953  0.051
    sst2    0   1.000 0.000  0.000
    sst2    14  0.035 0.967 -0.002
    sst2    21  0.020 0.976  0.004
    """,
    names=2,
)

# Rank correlations of finite, Jacobian, attention, value norm; sign accuracy of finite.
DELETION = table(
    """
    corrupt 0  0.989 0.980 0.570 0.542 99.49%
    corrupt 14 0.950 0.933 0.723 0.727 98.43%
    ordered 0  0.988 0.974 0.377 0.361 99.13%
    ordered 14 0.982 0.981 0.757 0.764 99.43%
    sst2    0  0.988 0.965 0.352 0.343 99.53%
    sst2    14 0.977 0.974 0.701 0.714 99.15%
    """,
    names=2,
)

# One entry: finite, second order; four entries: finite, second order.
PRECISION_REPAIR = table(
    """
    corrupt 2 0.7806 0.7838 0.5874 0.7794
    corrupt 4 0.8807 0.9258 0.6173 0.8433
    ordered 2 0.7697 0.8378 0.5932 0.7477
    ordered 4 0.6811 0.6811 0.2870 0.6367
    sst2    2 0.7811 0.7815 0.5815 0.7835
    sst2    4 0.8073 0.8650 0.6079 0.7584
    """,
    names=2,
)

# Query-Jacobian cosine of three seeds, disagreement.
REGRESSION = table(
    """
    linear  0.9951 0.9945 0.9974 0.005946
    softmax 0.9628 0.9653 0.9632 0.026968
    rope    0.8231 0.9639 0.9647 0.072063
    """,
    names=1,
)

# Error, top-two recall, sign accuracy; the zero predictor's two blanks are left out.
INITIAL = table(
    """
    first     0.075484 64.06% 81.25%
    separate  0.081529 65.63% 83.98%
    quadratic 0.056043 68.75% 85.16%
    exact     0.004075 96.88% 99.22%
    dense     0.004075 96.88% 99.22%
    """,
    names=1,
)

# Separate, quadratic, exact.
MAIN_JOINT = table(
    """
    0.5B retrieval 18 0.001042 2.98e-4  4.37e-6
    0.5B sst2      18 0.003099 5.99e-4  2.64e-5
    1.5B retrieval 14 0.003342 0.001525 8.22e-5
    1.5B retrieval 21 0.107864 0.087683 0.007844
    1.5B sst2      14 0.003194 0.001418 3.42e-4
    1.5B sst2      21 0.109616 0.080700 0.004510
    """,
    names=3,
)
# Zero, first order, separate, quadratic, exact.
JOINT_COVERAGE = table(
    """
    0.5B retrieval 18 0.001521 0.001028 0.001042 2.98e-4  4.37e-6
    0.5B sst2      18 0.007884 0.003183 0.003099 5.99e-4  2.64e-5
    1.5B retrieval 14 0.008275 0.003796 0.003342 0.001525 8.22e-5
    1.5B retrieval 21 0.098962 0.112774 0.107864 0.087683 0.007844
    1.5B sst2      14 0.012270 0.004656 0.003194 0.001418 3.42e-4
    1.5B sst2      21 0.108527 0.089914 0.109616 0.080700 0.004510
    """,
    names=3,
)
# Exact minus separate and its bracket, exact minus quadratic and its bracket.
JOINT_PAIRED = table(
    """
    0.5B retrieval 18 -0.001037 -0.001148 -0.000935 -0.000293 -0.000352 -0.000241
    0.5B sst2      18 -0.003072 -0.003433 -0.002720 -0.000572 -0.000657 -0.000487
    1.5B retrieval 14 -0.003260 -0.003859 -0.002716 -0.001442 -0.001800 -0.001126
    1.5B retrieval 21 -0.100020 -0.129003 -0.076014 -0.079840 -0.105230 -0.056382
    1.5B sst2      14 -0.002852 -0.003714 -0.002079 -0.001076 -0.001371 -0.000791
    1.5B sst2      21 -0.105106 -0.120056 -0.090357 -0.076190 -0.091271 -0.060908
    """,
    names=3,
)
# Interaction error of exact and of quadratic, correlation, mean magnitude.
JOINT_FACTORIAL = table(
    """
    0.5B retrieval 18 4.52e-6  2.96e-4  0.99999 0.001043
    0.5B sst2      18 2.54e-5  5.95e-4  0.99998 0.003094
    1.5B retrieval 14 6.00e-5  0.001513 0.99979 0.003321
    1.5B retrieval 21 0.008826 0.092810 0.99698 0.115820
    1.5B sst2      14 1.62e-4  0.001331 0.99837 0.003308
    1.5B sst2      21 0.003902 0.076860 0.99857 0.110007
    """,
    names=3,
)

# One strength: dense, sparse; three strengths: dense, sparse; the two ratios.
RUNTIMES = table(
    """
    native     112  8   2.083 2.521 4.014 3.292 0.83 1.22
    synthetic  128  8   2.096 2.517 4.021 3.296 0.83 1.22
    synthetic  128  256 2.133 2.533 4.146 3.279 0.84 1.26
    synthetic  1024 8   2.087 2.516 4.024 3.279 0.83 1.23
    synthetic  1024 256 2.134 2.537 4.157 3.288 0.84 1.26
    synthetic  8192 8   2.068 2.498 3.979 3.256 0.83 1.22
    synthetic  8192 256 2.142 2.531 4.197 3.281 0.85 1.28
    """,
    names=3,
)

TABLES: Mapping[str, Table] = {
    "main:phasetable": MAIN_PHASE,
    "main:jointtable": MAIN_JOINT,
    "tab:phaseprediction": PHASE_PREDICTION,
    "tab:angles": ANGLES,
    "tab:middleprediction": MIDDLE_PREDICTION,
    "tab:bandinteraction": BAND_INTERACTION,
    "tab:phasecontent": PHASE_CONTENT,
    "tab:deletionattribution": DELETION,
    "tab:precisionrepair": PRECISION_REPAIR,
    "tab:gdregression": REGRESSION,
    "tab:jointattribution": INITIAL,
    "tab:jointcoverage": JOINT_COVERAGE,
    "tab:jointpaired": JOINT_PAIRED,
    "tab:jointfactorial": JOINT_FACTORIAL,
    "tab:jointruntimes": RUNTIMES,
    "tab:allbandstrata": BAND_STRATA,
}
