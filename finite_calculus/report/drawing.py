"""A figure as SVG: the colours of Okabe and Ito; markers, strokes and hatches tell series apart in grey.

Ink and grid are CSS variables with the printed colour as fall-back, so that one drawing serves light, dark
and print. The same figure gives the same bytes.
"""

import io
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

from finite_calculus.harness.figures import Figure, Panel, Series

INK, GRID = "#1f2328", "#d0d7de"
# Blue, vermilion, green, orange, purple, sky: told apart by colour-blind readers.
_COLOURS = ("#0072b2", "#d55e00", "#009e73", "#e69f00", "#cc79a7", "#56b4e9")
_MARKERS = ("o", "s", "^", "D", "v", "P")
_STROKES = ("-", "--", "-.", ":", (0, (5, 1)), (0, (3, 1, 1, 1)))
_HATCHES = ("", "//", "..", "xx", "\\\\", "++")
_PANEL_WIDTH, _HEIGHT = 4.8, 3.4
# More groups of bars, or places of points that are words, take twice the width.
_MOST_GROUPS, _MOST_WORDS = 12, 20
_LINE = 0.19  # of a legend, in inches
_LETTERS = 64  # of a legend, over one panel
_MARK = 10  # letters that the mark of an entry and the space beside it take
_VARIABLES = {INK: "--figure-ink", GRID: "--figure-grid"}
_VARIABLE = re.compile(r"var\(--[a-z-]+, (#[0-9a-f]{6})\)")
# More points than this are drawn as one picture: a vector for each of them would fill the page.
_MOST_VECTORS = 4000


def draw(figure: Figure, *, owner: str = "") -> str:
    """The figure as SVG. For a page, `owner` makes its identifiers unique and ink and grid variables."""
    import matplotlib as mpl
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure as Canvas

    count = len(figure.panels)
    with mpl.rc_context(_style(owner + figure.name)):  # type: ignore[arg-type]
        width = _PANEL_WIDTH * count * (1 + any(map(_is_crowded, figure.panels)))
        canvas = Canvas(figsize=(width, _HEIGHT), layout="constrained")
        FigureCanvasSVG(canvas)
        handles: dict[str, Any] = {}
        for axes, panel in zip(
            canvas.subplots(1, count, squeeze=False)[0], figure.panels, strict=True
        ):
            handles |= _draw_panel(axes, panel)
        if len(handles) > 1:
            columns = _legend_columns([*handles], round(_LETTERS * width / _PANEL_WIDTH))
            canvas.legend(handles.values(), handles, loc="outside upper center", ncols=columns)
            lines = math.ceil(len(handles) / columns)
            canvas.set_size_inches(width, _HEIGHT + _LINE * (lines - 1))
        buffer = io.StringIO()
        canvas.savefig(
            buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True
        )
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    label = f'<svg role="img" aria-label="{_attribute(figure.title)}"'
    svg = svg.replace("<svg", label, 1)
    return _themed(svg) if owner else svg


def printed(svg: str) -> str:
    """A themed drawing in its printed colours, to be kept as a file."""
    return _VARIABLE.sub(r"\1", svg)


def _legend_columns(names: Sequence[str], letters: int) -> int:
    """The most columns, each as wide as its longest name, that fit above the panels."""
    for columns in range(len(names), 1, -1):
        lines = math.ceil(len(names) / columns)
        parts = [names[n : n + lines] for n in range(0, len(names), lines)]
        if sum(max(map(len, part)) + _MARK for part in parts) <= letters:
            return len(parts)
    return 1


def _style(salt: str) -> dict[str, Any]:
    return {
        "svg.fonttype": "none",
        "svg.hashsalt": salt,
        "font.family": "sans-serif",
        "font.size": 9,
        "axes.titlesize": 9,
        "text.color": INK,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": GRID,
        "grid.linewidth": 0.6,
        "legend.frameon": False,
        "hatch.linewidth": 0.6,
    }


def _draw_panel(axes: Any, panel: Panel) -> dict[str, Any]:
    kinds: dict[str, Callable[[Any, Panel], dict[str, Any]]] = {
        "lines": _draw_lines,
        "points": _draw_points,
        "bars": _draw_bars,
    }
    axes.set(xlabel=panel.x_label, ylabel=panel.y_label, title=panel.title)
    if panel.kind != "bars":
        axes.set_xscale(panel.x_scale)
    axes.set_yscale(panel.y_scale)
    handles = kinds[panel.kind](axes, panel)
    if panel.diagonal:
        corner = axes.get_xlim(), axes.get_ylim()
        ends = max(min(each) for each in corner), min(max(each) for each in corner)
        (handles["equal"],) = axes.plot(ends, ends, color=INK, linewidth=0.8, linestyle="--")
    if panel.level is not None:
        name, height = panel.level
        handles[name] = axes.axhline(height, color=INK, linewidth=0.8, linestyle="--")
    if panel.kind == "bars" and panel.y_scale == "log":
        # On this scale a bar has no foot: at a power of ten the smallest is still seen to be one.
        axes.set_ylim(bottom=_decade_below(panel.series))
    for axis, scale in ((axes.xaxis, panel.x_scale), (axes.yaxis, panel.y_scale)):
        if scale == "log" and not (axis is axes.xaxis and panel.kind == "bars"):
            _label_decades(axis)
    return handles


def _decade_below(series: Sequence[Series]) -> float:
    """The largest power of ten that leaves a fifth of a decade to every bar."""
    least = min((y for each in series for y in each.y if y > 0), default=1.0)
    return 10.0 ** math.floor(math.log10(least) - 0.2)


def _label_decades(axis: Any) -> None:
    """Powers of ten alone, or plain numbers in between where there is hardly one."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    if high < 100 * low:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axis.set_minor_formatter(NullFormatter())


def _draw_lines(axes: Any, panel: Panel) -> dict[str, Any]:
    handles = {}
    for n, series in enumerate(panel.series):
        marker = _MARKERS[n % 6] if len(series.x) <= 40 else None
        (handles[series.name],) = axes.plot(
            series.x, series.y, color=_COLOURS[n % 6], linestyle=_STROKES[n % 6], marker=marker,
            markersize=4, linewidth=1.4,
        )  # fmt: skip
        if series.low:
            axes.fill_between(series.x, series.low, series.high, color=_COLOURS[n % 6], alpha=0.15)
    return handles


def _draw_points(axes: Any, panel: Panel) -> dict[str, Any]:
    count = sum(len(series.x) for series in panel.series)
    dense = count > _MOST_VECTORS
    size, alpha = (6, 0.5) if dense else (14, 0.7) if count > 100 else (34, 1.0)
    handles = {}
    for n, series in enumerate(panel.series):
        look: dict[str, Any] = {"c": _COLOURS[n % 6], "marker": _MARKERS[n % 6], "linewidths": 0}
        axes.scatter(series.x, series.y, s=size, alpha=alpha, rasterized=dense, **look)
        # The legend shows a point that can be seen.
        handles[series.name] = axes.scatter([], [], s=34, **look)
        if series.low:
            errors = _errors(series)
            axes.errorbar(
                series.x, series.y, errors, fmt="none", ecolor=_COLOURS[n % 6], elinewidth=1
            )
    _slant(axes, panel.series)
    return handles


def _draw_bars(axes: Any, panel: Panel) -> dict[str, Any]:
    places = list(dict.fromkeys(str(x) for series in panel.series for x in series.x))
    width = 0.8 / len(panel.series)
    handles = {}
    for n, series in enumerate(panel.series):
        left = [places.index(str(x)) - 0.4 + (n + 0.5) * width for x in series.x]
        handles[series.name] = axes.bar(
            left, series.y, width, color=_COLOURS[n % 6], hatch=_HATCHES[n % 6], edgecolor=INK,
            linewidth=0.5, yerr=_errors(series) if series.low else None,
            error_kw={"elinewidth": 0.8, "ecolor": INK},
        )  # fmt: skip
    axes.grid(visible=False, axis="x")
    axes.set_xticks(range(len(places)), places)
    _slant(axes, panel.series)
    return handles


def _is_crowded(panel: Panel) -> bool:
    places = {x for series in panel.series for x in series.x if isinstance(x, str)}
    return len(places) > (_MOST_GROUPS if panel.kind == "bars" else _MOST_WORDS)


def _errors(series: Series) -> list[list[float]]:
    below = [max(y - low, 0.0) for y, low in zip(series.y, series.low, strict=True)]
    above = [max(high - y, 0.0) for y, high in zip(series.y, series.high, strict=True)]
    return [below, above]


def _slant(axes: Any, series: Sequence[Series]) -> None:
    """Words below an axis are slanted where they would run into each other."""
    words = {str(x) for each in series for x in each.x if isinstance(x, str)}
    if len(words) > 10:
        axes.tick_params(axis="x", labelrotation=90)
    elif sum(map(len, words)) > 40:
        axes.tick_params(axis="x", labelrotation=30)
        for label in axes.get_xticklabels():
            label.set_horizontalalignment("right")


def _themed(svg: str) -> str:
    for colour, variable in _VARIABLES.items():
        svg = svg.replace(colour, f"var({variable}, {colour})")
    return svg


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")
