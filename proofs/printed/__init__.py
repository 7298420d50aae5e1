"""The paper's printed figures as data: `FIGURES` lists every one derived from others.

Only numbers, labels of the paper's tables and sections, and words of our own are kept.
Of the files here only `arithmetic.py` computes: it holds the figures to one another.
"""

from collections.abc import Mapping

from proofs.printed.counts import counts
from proofs.printed.figure import Figure
from proofs.printed.joint import orderings, paired, runtimes, strengths, sweep
from proofs.printed.pilots import initial, regression
from proofs.printed.positional import angles, bands, components, overall, repair

FIGURES: tuple[Figure, ...] = (
    *counts(),
    *overall(),
    *angles(),
    *bands(),
    *components(),
    *repair(),
    *sweep(),
    *orderings(),
    *paired(),
    *strengths(),
    *runtimes(),
    *initial(),
    *regression(),
)

# Figure id to the reason why the paper's printed digits cannot all be right.
KNOWN_INCONSISTENT: Mapping[str, str] = {}

__all__ = ["FIGURES", "KNOWN_INCONSISTENT", "Figure"]
