"""Tables of the search study, from every saved candidate."""

from collections.abc import Iterator, Sequence

import numpy as np

from finite_calculus.harness import Records, Table
from finite_calculus.studies.search.settings import SearchSettings
from finite_calculus.studies.search.truth import (
    EFFECTS,
    LARGE,
    PLACES,
    PREDICTORS,
    Truth,
    truths,
)

NAMES = {
    "attention": "attention mass",
    "value_norm": "value norm",
    "input_gradient": "gradient × input",
    "first": "first order",
    "relp": "exact write, RelP",
    "integrated": "exact write, integrated gradients",
    "exact": "exact write",
    "second": "exact + second order",
    "corrected": "exact + second order + anchors",
}
TOPS, SHARES = (10, 100), (0.95, 1.0)
_KNOWN = (
    "Errors and signs are over candidates that the calibration did not execute; signs where the executed "
    "effect is above the rounding of the logits."
)


def report(settings: SearchSettings, records: Records) -> Iterator[Table]:
    """Ranking, errors by layer and kind, trust, and the time to find the top."""
    prompts = list(truths(records))
    yield _ranking(prompts)
    yield _by_task(prompts)
    yield _layers(prompts)
    yield _layers_and_kinds(prompts)
    yield _trust(prompts)
    yield _time(prompts)
    yield _costs(prompts)


def _ranking(prompts: Sequence[Truth]) -> Table:
    columns = ("predictor", "recall of 10", "recall of 100", "regret", "Spearman", "right signs",
               "MAE", f"MAE, effects ≥ {LARGE}")  # fmt: skip
    rows = []
    for name in PREDICTORS:
        figures = [
            _mean([p.recall(name, 10) for p in prompts]),
            _mean([p.recall(name, 100) for p in prompts]),
            _mean([p.regret(name) for p in prompts]),
            _mean([p.rank_correlation(name) for p in prompts]),
        ]
        if name in PLACES:
            rows.append((NAMES[name], *figures, None, None, None))
            continue
        signs = _mean([p.signs(name) for p in prompts])
        error, large = _error(prompts, name), _error(prompts, name, large=True)
        rows.append((NAMES[name], *figures, signs, error, large))
    note = (
        f"Means over {len(prompts)} prompts, {sum(p.cost.candidates for p in prompts)} candidates, all of "
        f"them executed; errors are pooled. Recall is of the largest executed effects in the predicted top "
        f"of the same length, regret what the predicted best lacks of the largest effect. Separate key "
        f"and value responses are the exact write here: no edit of the family changes both. The first three "
        f"do not know the edit. {_KNOWN} What anchors and sample executed is known to the last row, "
        f"{_mean([p.cost.known for p in prompts]):.0f} candidates a prompt."
    )
    return Table("ranking", "Predicted against executed", columns, tuple(rows), note)


def _by_task(prompts: Sequence[Truth]) -> Table:
    rows = []
    for task in dict.fromkeys(p.task for p in prompts):
        own = [p for p in prompts if p.task == task]
        for name in PREDICTORS:
            figures = [_mean([p.recall(name, count) for p in own]) for count in TOPS]
            figures += [_mean([p.regret(name) for p in own])]
            rows.append((task, NAMES[name], *figures))
    columns = ("prompts", "predictor", "recall of 10", "recall of 100", "regret")
    return Table("tasks", "Recall by kind of prompt", columns, tuple(rows))


def _layers(prompts: Sequence[Truth]) -> Table:
    numbers = sorted({int(n) for p in prompts for n in p.seconds})
    rows, upper = [], []
    for number in numbers:
        count = sum(int(_chosen(p, layer=number, large=True).sum()) for p in prompts)
        if not count:
            rows.append((number, 0, *[None] * 5))
            continue
        errors = [_error(prompts, n, layer=number, large=True) for n in EFFECTS[-3:]]
        ratios = [errors[0] / each for each in errors[1:]]
        rows.append((number, count, *errors, *ratios))
        if number >= len(numbers) / 3:
            upper.append(ratios)
    columns = ("layer", f"effects ≥ {LARGE}", *(f"MAE, {NAMES[n]}" for n in EFFECTS[-3:]),
               "times lower, second order", "times lower, anchors")  # fmt: skip
    second, anchors = (sum(each[k] >= 3 for each in upper) for k in (0, 1))
    note = (
        f"Errors of effects of at least {LARGE}, pooled over prompts. In the upper two thirds the second "
        f"order is at least 3 times nearer at {second} of {len(upper)} layers, with anchors at {anchors}. "
        f"{_KNOWN}"
    )
    return Table("layers", "Errors of large effects by layer", columns, tuple(rows), note)


def _layers_and_kinds(prompts: Sequence[Truth]) -> Table:
    layers = 1 + max(int(n) for p in prompts for n in p.seconds)
    kinds = 1 + max(int(p.columns["kind"].max()) for p in prompts)
    counts, sums = np.zeros(layers * kinds), np.zeros((len(EFFECTS), layers * kinds))
    for p in prompts:
        place = (p.columns["layer"].astype(int) * kinds + p.columns["kind"])[p.unknown]
        counts += np.bincount(place, minlength=layers * kinds)
        for number, name in enumerate(EFFECTS):
            errors = p.errors(name)[p.unknown]
            sums[number] += np.bincount(place, errors, minlength=layers * kinds)
    rows = tuple(
        (*divmod(place, kinds), *(float(total) for total in sums[:, place] / counts[place]))
        for place in np.flatnonzero(counts).tolist()
    )
    columns = ("layer", "kind", *(NAMES[name] for name in EFFECTS))
    title = "Mean absolute errors by layer and kind of edit"
    return Table("kinds", title, columns, rows, only_csv=True)


def _trust(prompts: Sequence[Truth]) -> Table:
    rows = []
    for task in (*dict.fromkeys(p.task for p in prompts), "all"):
        own = [p for p in prompts if task in (p.task, "all")]
        above = [p.unknown & (p.size > p.cost.floor) for p in own]
        wrong = [
            a & (np.sign(p.columns["corrected"]) != np.sign(p.columns["executed"]))
            for p, a in zip(own, above, strict=True)
        ]
        doubted = [~p.columns["trusted"] for p in own]
        total = sum(int(w.sum()) for w in wrong)
        marked = sum(int((w & d).sum()) for w, d in zip(wrong, doubted, strict=True))
        right = sum(int((a & ~w).sum()) for a, w in zip(above, wrong, strict=True))
        false = sum(int((a & ~w & d).sum()) for a, w, d in zip(above, wrong, doubted, strict=True))
        held = [p.errors("corrected") <= p.columns["band"] for p in own]
        inside = sum(int((h & p.unknown).sum()) for h, p in zip(held, own, strict=True))
        rest = sum(int(p.unknown.sum()) for p in own)
        share = marked / total if total else None
        rows.append((task, len(own), total, share, right, false / right, inside / rest))
    columns = ("prompts", "count", "wrong signs", "of them marked", "right signs",
               "of them marked too", "effects within the 95 % band")  # fmt: skip
    note = f"Of the corrected predictions. {_KNOWN} These prompts chose no rule and no constant."
    return Table("trust", "Marks and bands", columns, tuple(rows), note)


def _time(prompts: Sequence[Truth]) -> Table:
    rows = []
    full = [p.everything for p in prompts]
    for name in PREDICTORS:
        cells: list[float] = []
        for count in TOPS:
            for share in SHARES:
                reached = [p.reach(name, count, share) for p in prompts]
                cells.append(float(np.median([number for number, _ in reached])))
                cells.append(_mean([s / f for (_, s), f in zip(reached, full, strict=True)]))
        setup = _mean([p.setup(name) / f for p, f in zip(prompts, full, strict=True)])
        rows.append((NAMES[name], setup, *cells))
    heads = [
        word
        for count in TOPS
        for share in SHARES
        for word in (f"executed for {share:.0%} of {count}", f"time for {share:.0%} of {count}")
    ]
    note = (
        f"Candidates are executed in predicted order until the share of the executed top is among them: a "
        f"stop that only the truth knows. Executions are medians over prompts, times means of processor "
        f"time over executing everything ({_mean(full):.1f} s a prompt), all set-up charged, the "
        f"calibration's executions too."
    )
    title = "Time to find the largest effects, against executing everything"
    return Table("time", title, ("predictor", "set-up", *heads), tuple(rows), note)


def _costs(prompts: Sequence[Truth]) -> Table:
    parts = ("plain", "capture", "score", "curvature", "second", "calibrate", "relp", "integrated")
    rows = []
    for task in (*dict.fromkeys(p.task for p in prompts), "all"):
        own = [p for p in prompts if task in (p.task, "all")]
        figures = [_mean([getattr(p.cost, part) for p in own]) for part in parts]
        count, tokens = (_mean([getattr(p.cost, n) for p in own]) for n in ("candidates", "tokens"))
        full = _mean([p.everything for p in own])
        each = _mean(
            [p.cost.plain / (p.everything - p.cost.capture) * p.cost.candidates for p in own]
        )
        rows.append((task, len(own), tokens, count, *figures, full, each))
    columns = ("prompts", "count", "tokens", "candidates", "plain pass s", *(f"{n} s" for n in parts[1:]),
               "executing everything s", "edits in the time of a plain pass")  # fmt: skip
    note = "Seconds of the processor for a prompt, means. Another run gives other numbers."
    return Table("costs", "What a search costs", columns, tuple(rows), note)


def _chosen(truth: Truth, *, layer: int | None = None, large: bool = False) -> np.ndarray:
    chosen = truth.unknown
    if layer is not None:
        chosen = chosen & (truth.columns["layer"] == layer)
    return chosen & (truth.size >= LARGE) if large else chosen


def _error(
    prompts: Sequence[Truth], predictor: str, *, layer: int | None = None, large: bool = False
) -> float:
    """The mean error of all chosen candidates of all prompts; NaN where there is none."""
    errors = np.concatenate(
        [p.errors(predictor)[_chosen(p, layer=layer, large=large)] for p in prompts]
    )
    return float(errors.mean()) if len(errors) else float("nan")


def _mean(figures: Sequence[float | int]) -> float:
    return float(np.mean(figures))
