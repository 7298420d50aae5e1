"""Tables of the positional study: our archives beside the paper's figures, which are another model's.

Overall errors, coverage and the matched control show every archive; what is broken down further shows
the first one, and the others' tables are in the summaries of their archives.
"""

import json
from collections.abc import Callable

from archives import MODELS, ROOT, TASKS, Rows, archive_tables, archives, error, heading, line

from proofs.printed import tables as printed

STUDY = "positional"
_PAPER = "Qwen2.5-1.5B (paper)"


def coverage() -> list[str]:
    """What the archives hold, counted and replayed, beside the paper's checks."""
    lines = heading(1, "model", "sets a task", "executed shifts", "of", "deletions", "repairs",
                    "checks", "failed", "numbers replayed", "disagree")  # fmt: skip
    for name in archives(STUDY):
        tables = archive_tables(STUDY, name)
        audit = {row["figure"]: row["value"] for row in tables["audit"]}
        figures = ("executed shifts", "expected shifts", "executed deletions", "executed repairs",
                   "checks recorded", "checks failed")  # fmt: skip
        saved = (ROOT / "results" / STUDY / name / "manifest.json").read_text(encoding="utf-8")
        replay = json.loads(saved)["replay"]
        sets = " to ".join(sorted({row["sets"] for row in tables["accuracy"]}, key=int))
        lines.append(
            line(ours(name), sets, *(f"{int(audit[figure]):,}" for figure in figures),
                 f"{replay['compared']:,}", replay["failed"])
        )  # fmt: skip
    return [*lines, line(_PAPER, "256", "92,160", "92,160", "–", "–", "1,166,880", "0", "–", "–")]


def prediction() -> list[str]:
    """Errors of the predictors, overall, with sign accuracy and correlation of the finite one."""
    lines = heading(2, "model", "task", "finite", "Jacobian", "zero", "below zero", "interval",
                    "sign, finite", "sign, Jacobian", "r, finite")  # fmt: skip
    for model, tables in _ours():
        signs = {(row["task"], row["predictor"]): row for row in tables["signs"]}
        for row in tables["prediction"]:
            if row["against"] != "zero":
                continue
            finite, tangent = (signs[row["task"], name] for name in ("finite", "Jacobian"))
            lines.append(
                line(model, TASKS[row["task"]], *_errors(row), _percent(row["reduction %"]),
                     _interval(row), _percent(finite["sign accuracy %"]),
                     _percent(tangent["sign accuracy %"]), f"{float(finite['Pearson r']):.3f}")
            )  # fmt: skip
    signs = {"corrupt": (96.52, 75.01), "ordered": (95.36, 74.32), "sst2": (96.40, 73.12)}
    for (task,), (*errors, below, low, high) in printed.PHASE_PREDICTION.items():
        finite, tangent, zero = errors
        accuracies = [f"{share:.1f} %" for share in signs[task]]
        lines.append(line(_PAPER, TASKS[task], *map(error, (finite, tangent, zero)), _spaced(below),
                          f"[{low[:-1]}, {high[:-1]}]", *accuracies, "–"))  # fmt: skip
    return lines


def layers() -> list[str]:
    """Errors by layer."""
    lines = heading(2, "model", "task", "layer", "finite", "Jacobian", "zero", "below zero",
                    "interval")  # fmt: skip
    for model, tables in _ours()[:1]:
        for row in tables["layers"]:
            lines.append(
                line(model, TASKS[row["task"]], row["layer"], *_errors(row),
                     _percent(row["below zero %"]), _interval(row))
            )  # fmt: skip
    return lines


def second() -> list[str]:
    """What the second order downstream takes off the finite predictor's error."""
    lines = heading(2, "model", "task", "layer", "edits", "zero", "finite", "second order",
                    "below finite", "interval")  # fmt: skip
    for model, tables in _ours()[:1]:
        for row in tables["second-order"]:
            errors = [error(row[f"{name} MAE"]) for name in ("zero", "finite", "second")]
            lines.append(
                line(model, TASKS[row["task"]], row["layer"], row["edits"], *errors,
                     _percent(row["below finite %"]), _interval(row))
            )  # fmt: skip
    return lines


def middle() -> list[str]:
    """The middle band at both shifts."""
    lines = heading(2, "model", "task", "shift", "finite", "Jacobian", "zero", "below Jacobian",
                    "interval")  # fmt: skip
    for model, tables in _ours()[:1]:
        for row in tables["strata"]:
            if row["band"] == "middle":
                lines.append(line(model, TASKS[row["task"]], row["shift"], *_errors(row),
                                  _percent(row["below Jacobian %"]), _interval(row)))  # fmt: skip
    for (task, shift), (finite, tangent, zero, below) in printed.MIDDLE_PREDICTION.items():
        lines.append(line(_PAPER, TASKS[task], shift, *map(error, (finite, tangent, zero)),
                          _spaced(below), "–"))  # fmt: skip
    return lines


def certificates() -> list[str]:
    """Tightness of the certificate of the Jacobian, by band and shift."""
    lines = heading(2, "model", "task", "band, shift", "KL", "TV", "softmax tightness", "tightness",
                    "rotary share", "certified signs")  # fmt: skip
    for model, tables in _ours()[:1]:
        for row in tables["certificates"]:
            lines.append(
                line(model, TASKS[row["task"]], f"{row['band']}, {row['shift']}",
                     *(error(row[name]) for name in ("KL", "TV", "softmax tightness", "tightness")),
                     f"{100 * float(row['rotary share']):.1f} %", _percent(row["certified signs %"]))
            )  # fmt: skip
    return lines


def interaction() -> list[str]:
    """Fast–middle interaction in percent of the joint local effect."""
    lines = heading(2, "model", "task", "layer", "shift 16", "interval", "shift 128", "interval")
    for model, tables in _ours()[:1]:
        found: dict[tuple[str, str], list[str]] = {}
        for row in tables["interaction"]:
            cells = found.setdefault((row["task"], row["layer"]), [])
            cells += [f"{float(row['interaction %']):.2f}", _interval(row, digits=2)]
        lines += [line(model, TASKS[task], layer, *cells) for (task, layer), cells in found.items()]
    for (task, layer), cells in printed.BAND_INTERACTION.items():
        small, low, high, large, lower, higher = (cell[:-1] for cell in cells)
        lines.append(line(_PAPER, TASKS[task], layer, small, f"[{low}, {high}]", large,
                          f"[{lower}, {higher}]"))  # fmt: skip
    return lines


def reordering() -> list[str]:
    """Signed projections of phase, context and their interaction."""
    parts = ("phase", "context", "interaction")
    lines = heading(2, "model", "task", "layer", *parts)
    for model, tables in _ours()[:1]:
        for row in tables["reordering"]:
            lines.append(line(model, TASKS[row["task"]], row["layer"],
                              *(f"{float(row[part]):.3f}" for part in parts)))  # fmt: skip
    for (task, layer), cells in printed.PHASE_CONTENT.items():
        lines.append(line(_PAPER, TASKS[task], layer, *cells))
    return lines


def deletion() -> list[str]:
    """Rank correlations of deletions with what was executed."""
    names = ("finite", "Jacobian", "attention", "value norm")
    lines = heading(2, "model", "task", "layer", *names, "sign, finite")
    for model, tables in _ours()[:1]:
        for row in tables["deletion"]:
            lines.append(line(model, TASKS[row["task"]], row["layer"],
                              *(f"{float(row[name]):.3f}" for name in names),
                              _percent(row["finite sign %"])))  # fmt: skip
    for (task, layer), (*cells, sign) in printed.DELETION.items():
        lines.append(line(_PAPER, TASKS[task], layer, *cells, _spaced(sign)))
    return lines


def repair() -> list[str]:
    """Relative errors after restoring four entries, and the matched control."""
    lines = heading(2, "model", "task", "bits", "exact, re-scored", "second, re-scored",
                    "exact, once", "second, once", "exact − second, both re-scored", "interval")  # fmt: skip
    for model, tables in _ours():
        errors = {_method(row): float(row["relative RMSE"]) for row in tables["repair"]}
        gaps = {_method(row, "against"): row for row in tables["repair-contrasts"]}
        for task, bits in dict.fromkeys((row["task"], row["bits"]) for row in tables["repair"]):
            shown = [
                f"{errors[task, bits, '4', method, when]:.4f}"
                for when in ("after each", "once")
                for method in ("exact", "second-order")
            ]
            gap = gaps[task, bits, "4", "second-order", "after each"]
            lines.append(line(model, TASKS[task], bits, *shown,
                              f"{float(gap['difference']):+.4f}", _interval(gap, digits=4)))  # fmt: skip
    for (task, bits), (_, _, exact, second) in printed.PRECISION_REPAIR.items():
        lines.append(line(_PAPER, TASKS[task], bits, exact, "–", "–", second, "–", "–"))
    return lines


TABLES: dict[str, Callable[[], list[str]]] = {
    f"positional-{made.__name__}": made
    for made in (
        coverage,
        prediction,
        layers,
        second,
        middle,
        certificates,
        interaction,
        reordering,
        deletion,
        repair,
    )
}


def ours(archive: str) -> str:
    """How a row calls a model of ours."""
    return f"{MODELS[archive]} (here)"


def _ours() -> list[tuple[str, dict[str, Rows]]]:
    return [(ours(name), archive_tables(STUDY, name)) for name in archives(STUDY)]


def _errors(row: dict[str, str]) -> list[str]:
    return [error(row[f"{name} MAE"]) for name in ("finite", "Jacobian", "zero")]


def _method(row: dict[str, str], column: str = "method") -> tuple[str, ...]:
    return row["task"], row["bits"], row["entries"], row[column], row["scores"]


def _interval(row: dict[str, str], prefix: str = "", *, digits: int = 1) -> str:
    low, high = (float(row[f"{prefix}{end}"]) for end in ("low", "high"))
    return f"[{low:.{digits}f}, {high:.{digits}f}]"


def _percent(value: str) -> str:
    return f"{float(value):.1f} %"


def _spaced(value: str) -> str:
    return value.replace("%", " %")
