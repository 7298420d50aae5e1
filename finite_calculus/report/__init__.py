"""A page that opens offline: what was proved, checked and measured, with the run behind every number.

It reads saved records alone. Nothing here loads a model or imports torch.

    write_report   ledgers, preflights, audits, runs and archives as one self-contained HTML file
    draw_named     a figure as SVG, by its name
    drawings       all figures by name
    read_sources   what a list of paths holds
"""

from finite_calculus.report.named import draw_named, drawings
from finite_calculus.report.page import write_report
from finite_calculus.report.sources import read_sources

__all__ = ["draw_named", "drawings", "read_sources", "write_report"]
