"""The joint study on the pages: errors beside the paper's, every layer, and what of them is said in words.

What is said is made from the archives, so that it follows them.
"""

import json
from collections.abc import Callable
from typing import Any

from archives import MODELS, ROOT, TASKS, archive_tables, error, heading, line

from proofs.printed import tables as printed

STUDY = "joint-kv"
# The archives that the pages show, and the one with every layer of a model.
ARCHIVES = ("smollm2-135m-instruct", "stories15m", "tinyllama-1.1b")
FIRST, EVERY_LAYER = ARCHIVES[0], "smollm2-135m-instruct-every-layer"


def errors() -> list[str]:
    """Errors of the predictors, ours from the archives and the paper's."""
    lines = heading(2, "model", "task, layer", "zero", "separate", "quadratic", "exact joint",
                    "below separate", "below quadratic", "r of the interaction")  # fmt: skip
    for archive in ARCHIVES:
        for row in joint_rows(archive):
            cells = [error(row[name]) for name in ("zero", "separate", "quadratic", "exact")]
            below = [_percent(row[name]) for name in ("below separate", "below quadratic")]
            place = f"{TASKS[row['task']]}, {row['layer']}"
            lines.append(
                line(f"{MODELS[archive]} (here)", place, *cells, *below, _correlation(row["r"]))
            )
    for key, (zero, _, separate, quadratic, exact) in printed.JOINT_COVERAGE.items():
        size, task, layer = key
        below = [_percent(100 - 100 * float(exact) / float(by)) for by in (separate, quadratic)]
        lines.append(line(f"Qwen2.5-{size} (paper)", f"{TASKS[task]}, {layer}", zero, separate, quadratic,
                          exact, *below, printed.JOINT_FACTORIAL[key][2]))  # fmt: skip
    return lines


def agreement() -> list[str]:
    """What of the paper's findings holds in the archives that are shown, counted."""
    rows = [row for archive in ARCHIVES for row in joint_rows(archive)]
    names = ("zero", "first order", "separate", "quadratic")
    lowest = sum(row["exact"] < min(row[name] for name in names) for row in rows)
    gaps = [row for archive in ARCHIVES for row in archive_tables(STUDY, archive)["paired"]]
    below = sum(row["below zero"] == "yes" for row in gaps)
    worse = [
        f"{MODELS[archive]} {TASKS[row['task']]} {row['layer']}"
        for archive in ARCHIVES
        for row in joint_rows(archive)
        if row["separate"] > row["zero"]
    ]
    return [
        f"- Exact joint errs least in {lowest} of {len(rows)} settings.",
        f"- {below} of {len(gaps)} paired 95 % intervals of exact joint minus another predictor lie below "
        f"zero.",
        f"- Separate attribution errs more than predicting nothing in {len(worse)} of {len(rows)}: "
        f"{'; '.join(worse) or 'none'}. In the paper that is layer 21.",
    ]


def disagreement() -> list[str]:
    """What differs from the paper, with its figures."""
    audit, rows = _audit(FIRST), joint_rows(FIRST)
    move = float(audit["control margin, batch against single, largest"])
    least = error(min(row["exact"] for row in rows))
    lines = [
        f"- Effects on {MODELS[FIRST]} are smaller, and the smallest error ({least}) is about the size of "
        f"float32 rounding: the control margin itself moves by up to {error(move)} between a batch and a "
        f"single row."
    ]
    for archive in ARCHIVES:
        for row in archive_tables(STUDY, archive)["strengths"]:
            if float(row["strength"]) == 1 or float(row["low"]) > 0 or float(row["high"]) < 0:
                continue
            ends = ", ".join(f"{float(row[end]):.1e}" for end in ("low", "high"))
            lines.append(
                f"- At strength {row['strength']} on {MODELS[archive]} exact and quadratic cannot be told "
                f"apart: difference {float(row['difference']):.1e}, interval [{ends}]."
            )
    right = [
        f"{MODELS[archive]} {' and '.join(_percent(float(row['right %'])) for row in rows)}"
        for archive in ARCHIVES
        if (rows := archive_tables(STUDY, archive)["accuracy"])
    ]
    lines.append(f"- No model solves the tasks. Right answers: {', '.join(right)}.")
    large = max(joint_rows("embedded"), key=lambda row: row["zero"])
    lines.append(
        f"- In layer {large['layer']} of `embedded`, where one edit decides the answer (mean effect "
        f"{large['zero']:.2f}), exact joint is only {_percent(large['below separate'])} below separate: the "
        f"local write is exact there too, the frozen gradient is not."
    )
    return lines


def records() -> list[str]:
    """What was run, checked and replayed on the first model."""
    audit = _audit(FIRST)
    replay = json.loads((ROOT / "results" / STUDY / FIRST / "manifest.json").read_text())["replay"]
    dense, local = (
        audit[name]
        for name in ("sparse against dense, float64, largest",
                     "local prediction against executed float32, largest")
    )  # fmt: skip
    return [
        f"On {MODELS[FIRST]} {int(audit['executed interventions']):,} of "
        f"{int(audit['expected interventions']):,} interventions were executed, and of "
        f"{int(audit['checks recorded']):,} checks {audit['checks failed']} failed. Sparse and dense agree "
        f"within {dense}, the executed float32 write with its prediction within {local}; of "
        f"{replay['compared']:,} replayed numbers {replay['failed']} disagree, the furthest by "
        f"{replay['worst']:.1e} of the scale of its terms."
    ]


def kills() -> list[str]:
    """What became of runs that were killed."""
    saw = json.loads((ROOT / "results" / "kill-study.json").read_text())
    return [
        f"After {saw['kills']} kills (SIGKILL) at random moments {saw['finished']} runs came to their end; "
        f"{saw['different']} of them held records that differ from those of an unbroken one in a byte."
    ]


def every_layer() -> list[str]:
    """Every layer: the local error beside what follows, and who errs less."""
    lines = heading(1, "layer", "zero", "quadratic", "exact joint", "second order",
                    "exact − quadratic, interval", "exact, share of the effect",
                    "largest local error", "errs less")  # fmt: skip
    tables = archive_tables(STUDY, EVERY_LAYER)
    sizes = {row["layer"]: row["zero"] for row in tables["coverage"]}
    gaps = {row["layer"]: row for row in tables["paired"] if row["comparator"] == "quadratic"}
    for row in tables["downstream"]:
        gap, layer = gaps[row["layer"]], row["layer"]
        ends = ", ".join(f"{float(gap[end]):.1e}" for end in ("low", "high"))
        cells = [error(row[name]) for name in ("quadratic MAE", "exact joint MAE", "second MAE")]
        lines.append(
            line(layer, error(sizes[layer]), *cells, f"[{ends}]",
                 f"{float(row['exact error % of effect']):.2f} %",
                 error(row["local error, largest"]), row["errs less"])
        )  # fmt: skip
    return lines


def layers_in_words() -> list[str]:
    """What the table of every layer comes to."""
    rows = archive_tables(STUDY, EVERY_LAYER)["downstream"]
    local = max(float(row["local error, largest"]) for row in rows)
    won = sum(row["errs less"] == "exact" for row in rows)
    others = "; ".join(
        f"{row['errs less']} at layer {row['layer']}" for row in rows if row["errs less"] != "exact"
    )
    worst = max(rows, key=lambda row: float(row["exact error % of effect"]))
    largest = sorted(rows, key=lambda row: -float(row["exact joint MAE"]))[:4]
    gains = ", ".join(
        f"{100 - 100 * float(row['second MAE']) / float(row['exact joint MAE']):.0f} % at layer "
        f"{row['layer']}"
        for row in largest
    )
    move = float(_audit(EVERY_LAYER)["control margin, batch against single, largest"])
    return [
        f"- The largest local error is {error(local)}: whatever exact joint errs beyond it is the frozen "
        f"gradient's. The largest share of the effect that this comes to is "
        f"{float(worst['exact error % of effect']):.0f} %, at layer {worst['layer']}.",
        f"- Exact joint errs less than the quadratic term at {won} of {len(rows)} layers"
        f"{f' ({others})' if others else ''}.",
        f"- Where exact joint errs most, second order downstream along the edit's own write takes off "
        f"{gains}. In most other layers what remains, about 1e-5, is the size of float32 rounding of the "
        f"margin ({error(move)} between a batch and a single row).",
    ]


def joint_rows(archive: str) -> list[dict[str, Any]]:
    """What the table of an archive shows, by task and layer, numbers in full."""
    tables = archive_tables(STUDY, archive)
    found, pairs, interactions = (tables[name] for name in ("coverage", "paired", "interaction"))
    below = {(r["task"], r["layer"], r["comparator"]): float(r["reduction %"]) for r in pairs}
    return [
        {
            "task": row["task"],
            "layer": row["layer"],
            **{name: float(row[name]) for name in ("zero", "first order", "separate", "quadratic")},
            "exact": float(row["exact joint"]),
            "below separate": below[row["task"], row["layer"], "separate"],
            "below quadratic": below[row["task"], row["layer"], "quadratic"],
            "r": float(interaction["exact r"]),
        }
        for row, interaction in zip(found, interactions, strict=True)
    ]


TABLES: dict[str, Callable[[], list[str]]] = {
    "joint-kv": errors,
    "joint-kv-agrees": agreement,
    "joint-kv-differs": disagreement,
    "joint-kv-records": records,
    "joint-every-layer": every_layer,
    "joint-layers-say": layers_in_words,
    "kill-study": kills,
}


def _audit(archive: str) -> dict[str, str]:
    return {row["figure"]: row["value"] for row in archive_tables(STUDY, archive)["audit"]}


def _percent(share: float) -> str:
    return f"{share:.1f} %"


def _correlation(value: float) -> str:
    """Four decimals, or as many as tell it from one."""
    decimals = 4
    while float(f"{value:.{decimals}f}") == 1 != value:
        decimals += 1
    return f"{value:.{decimals}f}"
