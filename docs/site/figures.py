"""The figures of the pages, each drawn by the build from saved records: `<!-- figure: NAME [ARCHIVE] -->`.

In the repository a page names the figure and its archive; in the site the drawing stands there.
"""

import functools
import html
import re
from collections.abc import Mapping
from pathlib import Path

from texts import raw

from finite_calculus.harness.figures import Figure
from finite_calculus.harness.summary import report_figures
from finite_calculus.report.audit_tables import audit_figure
from finite_calculus.report.drawing import draw
from finite_calculus.report.explained import EXPLAINED, workflow
from finite_calculus.report.sources import AuditSource, RunSource, read_sources

ROOT = Path(__file__).parents[2]
MARK = re.compile(r"^<!-- figure: (\S+)(?: (\S+))? -->$", re.MULTILINE)


def with_figures(text: str, page: str) -> str:
    """A page with its figures drawn."""
    return MARK.sub(lambda mark: _drawn(mark[1], mark[2], page), text)


def _drawn(name: str, archive: str | None, page: str) -> str:
    if name == "workflow":
        return raw(
            f'<figure class="wide">{_framed(workflow(), "The way of an edit", 2.3)}</figure>'
        )
    known = _figures(archive)
    if name not in known:
        raise ValueError(
            f"{page}: a figure must be one of {', '.join(known)}; got {name!r} of {archive}."
        )
    figure = known[name]
    svg = draw(figure, owner=re.sub(r"\W", "-", f"{page}-{archive}-"))
    command = f"finite-calculus figure {name}" + (f" {archive}" if archive else "")
    caption = f"<b>{html.escape(figure.title)}.</b> {html.escape(figure.caption)}"
    framed = _framed(svg, figure.title, len(figure.panels))
    drawn = f"<figure>{framed}<figcaption>{caption} <code>{command}</code></figcaption></figure>"
    return raw(re.sub(r"\n\s*\n", "\n", drawn))


def _framed(svg: str, title: str, panels: float) -> str:
    """A drawing that a narrow screen scrolls instead of shrinking what is written in it."""
    label = html.escape(title)
    place = f'class="scroll" tabindex="0" role="region" aria-label="{label}"'
    return f'<div {place} style="--panels:{panels}">{svg}</div>'


@functools.cache
def _figures(archive: str | None) -> Mapping[str, Figure]:
    """Every figure of an archive, or of the calculus itself, by name."""
    if archive is None:
        return {figure.name: figure for figure in EXPLAINED}
    (source,) = read_sources([ROOT / archive])
    if isinstance(source, AuditSource):
        figures = [audit_figure(source.records)]
    else:
        assert isinstance(source, RunSource)
        figures = report_figures(source.saved)
    return {figure.name: figure for figure in figures}
