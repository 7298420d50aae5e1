"""Every drawing by the name that the command takes."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from finite_calculus.harness.summary import report_figures
from finite_calculus.report.audit_tables import audit_figure
from finite_calculus.report.drawing import draw, printed
from finite_calculus.report.explained import EXPLAINED, workflow
from finite_calculus.report.sources import AuditSource, RunSource, Source


def drawings(sources: Sequence[Source]) -> Mapping[str, Callable[[], str]]:
    """SVG by name; where several runs have a figure of one name, RUN:NAME tells them apart."""
    runs = [source for source in sources if isinstance(source, RunSource)]
    figures = [(run.name, figure) for run in runs for figure in report_figures(run.saved)]
    figures += [(s.name, audit_figure(s.records)) for s in sources if isinstance(s, AuditSource)]
    count = {figure.name: sum(figure.name == f.name for _, f in figures) for _, figure in figures}
    named: dict[str, Callable[[], str]] = {"workflow": lambda: printed(workflow())}
    named |= {figure.name: partial(draw, figure) for figure in EXPLAINED}
    for run, figure in figures:
        name = figure.name if count[figure.name] == 1 else f"{run}:{figure.name}"
        named[name] = partial(draw, figure)
    return named


def draw_named(name: str, sources: Sequence[Source]) -> str:
    """One drawing; an unknown name is an error that lists the known ones."""
    known = drawings(sources)
    if name not in known:
        raise ValueError(
            f"`name` must be a figure of the records given: {', '.join(known)}; got {name!r}. Name the "
            f"run or archive that has it."
        )
    return known[name]()
