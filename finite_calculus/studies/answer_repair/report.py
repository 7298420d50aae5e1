"""Tables of the study of answer repair, from its records alone."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from finite_calculus.harness import Records, Table, paired_interval
from finite_calculus.harness.metrics import unresolved_note
from finite_calculus.studies.answer_repair.rows import (
    ARMS,
    BRANCHES,
    EDITED,
    Case,
    Confirmation,
    Continuation,
)
from finite_calculus.studies.answer_repair.settings import RepairSettings

# Arms and what stands beside them: one continuation that begins with the target, whatever the model says.
_FORCED = BRANCHES[2]
# Characters of an expression that a table shows; the records have all.
_SHOWN = 40


@dataclass(frozen=True, eq=False)
class Outcomes:
    """The continuations of one stream by case and arm."""

    rows: Sequence[Continuation]

    @cached_property
    def by_case(self) -> Mapping[str, Mapping[str, list[Continuation]]]:
        """Every case with the continuations of each arm, best ranked first."""
        cases: dict[str, dict[str, list[Continuation]]] = {}
        for row in self.rows:
            cases.setdefault(row.case, {}).setdefault(row.arm, []).append(row)
        return cases

    def cases(self, *, right: bool, kind: str | None = None) -> list[str]:
        """Cases that the unedited model answers rightly, or wrongly."""
        ordinary = {case: arms["ordinary"][0] for case, arms in self.by_case.items()}
        return [
            case
            for case, row in ordinary.items()
            if row.right == right and kind in (None, row.kind)
        ]

    def repaired(self, cases: Sequence[str], arm: str, *, tries: int | None = None) -> np.ndarray:
        """Of each case, whether one of the arm's first tries passes every check."""
        listed = [self.by_case[case].get(arm, [])[:tries] for case in cases]
        return np.array([any(row.right for row in rows) for rows in listed], dtype=float)


def report(settings: RepairSettings, records: Records) -> Iterator[Table]:
    """Base rates, repairs, damage, predictions, and the example with the search that it comes from."""
    rows = records.rows(Continuation)
    rate = Outcomes([row for row in rows if row.stream == "rate"])
    if rate.rows:
        yield _base(rate)
        if rate.cases(right=False):
            yield _rates(settings, rate)
            yield _kinds(rate)
        yield _damage(settings, rate)
        yield _predictions(rate)
    searched = Outcomes([row for row in rows if row.stream == "search"])
    yield _tries(searched)
    yield _search(searched)
    confirmed = records.rows(Confirmation)
    if confirmed:
        yield _example(confirmed, rows)
    yield _margins(records.rows(Case))


def exact_interval(successes: int, trials: int, coverage: float) -> tuple[float, float]:
    """Clopper and Pearson's interval of a rate: no bootstrap says anything where every case is alike."""
    from scipy.stats import beta

    tail = (1 - coverage) / 2
    low = beta.ppf(tail, successes, trials - successes + 1) if successes else 0.0
    high = beta.ppf(1 - tail, successes + 1, trials - successes) if successes < trials else 1.0
    return float(low), float(high)


def _base(rate: Outcomes) -> Table:
    kinds = list(dict.fromkeys(row.kind for row in rate.rows))
    lines = []
    for kind in [*kinds, None]:
        wrong, right = (rate.cases(right=r, kind=kind) for r in (False, True))
        forced = int(rate.repaired(wrong, _FORCED).sum())
        lines.append((kind or "all", len(wrong) + len(right), len(right), len(wrong), forced))
    columns = (
        "kind",
        "cases",
        "pass unedited",
        "fail unedited",
        "repaired by a forced first token",
    )
    note = (
        "Six executable checks, all of which must pass. A forced first token is the supplied target written "
        "in the model's place, followed by what the model says: no edit is needed for that."
    )
    return Table("base", "Cases before any edit", columns, tuple(lines), note)


def _rates(settings: RepairSettings, rate: Outcomes) -> Table:
    cases = rate.cases(right=False)
    clusters = np.array(cases)
    ranked = rate.repaired(cases, "ranked")
    lines = []
    verdicts: dict[str, list[str]] = {"above": [], "below": [], "across": []}
    for arm in ARMS:
        own = rate.repaired(cases, arm)
        first = rate.repaired(cases, arm, tries=1)
        low, high = exact_interval(int(own.sum()), len(own), settings.coverage)
        words: tuple[str | float, ...] = ("–", "–", "–")
        if arm != "ranked":
            apart = paired_interval(
                ranked,
                own,
                clusters,
                resamples=settings.resamples,
                coverage=settings.coverage,
                seed=settings.bootstrap_seed,
            )
            words = tuple(100 * x for x in (apart.estimate, apart.low, apart.high))
            verdicts[_side(apart.low, apart.high)].append(arm)
        lines.append(
            (arm, len(cases), int(own.sum()), 100 * float(own.mean()), 100 * low, 100 * high,
             100 * float(first.mean()), *words)
        )  # fmt: skip
    columns = ("arm", "failing cases", "repaired", "repaired %", "low", "high", "by its first try %",
               "ranked minus arm", "its low", "its high")  # fmt: skip
    note = (
        f"Of the cases that fail unedited, those in which one of {settings.tries} executed continuations "
        f"passes all checks: the same number for every arm, the target supplied. Rates have Clopper and "
        f"Pearson's interval, differences (percentage points) that of the paired bootstrap over cases. The "
        f"interval of the difference lies above zero, so that the ranking repairs more, for "
        f"{_listed(verdicts['above'])}; below for {_listed(verdicts['below'])}; and holds zero for "
        f"{_listed(verdicts['across'])}."
    )
    return Table("rates", "Repairs", columns, tuple(lines), note)


def _side(low: float, high: float) -> str:
    """Where an interval lies: above zero, below zero or across it."""
    if low > 0:
        return "above"
    return "below" if high < 0 else "across"


def _listed(arms: Sequence[str]) -> str:
    return ", ".join(arms) if arms else "none"


def _kinds(rate: Outcomes) -> Table:
    kinds = list(dict.fromkeys(row.kind for row in rate.rows))
    lines = []
    for kind in kinds:
        cases = rate.cases(right=False, kind=kind)
        counts = (int(rate.repaired(cases, arm).sum()) for arm in ARMS)
        lines.append((kind, len(cases), *counts))
    columns = ("kind", "failing cases", *ARMS)
    return Table("kinds", "Repairs by kind of case", columns, tuple(lines))


def _damage(settings: RepairSettings, rate: Outcomes) -> Table:
    cases = rate.cases(right=True)
    lines = []
    for arm in ARMS:
        tried = [row for case in cases for row in rate.by_case[case].get(arm, [])]
        broken = sum(not row.right for row in tried)
        first = len(cases) - int(rate.repaired(cases, arm, tries=1).sum())
        share = 100 * broken / len(tried) if tried else None
        lines.append((arm, len(cases), first, len(tried), broken, share))
    columns = ("arm", "passing cases", "broken by the first try", "continuations", "broken",
               "broken %")  # fmt: skip
    note = "Cases that pass unedited, with the same edits and prompts, chosen towards the right answer."
    return Table("damage", "Damage", columns, tuple(lines), note)


def _predictions(rate: Outcomes) -> Table:
    lines = []
    for arm in EDITED:
        own = [row for row in rate.rows if row.arm == arm]
        pairs = [(r.predicted, r.effect) for r in own if r.predicted is not None is not r.effect]
        predicted, effect = np.array(pairs, dtype=float).T
        error = float(np.abs(predicted - effect).mean())
        lines.append((arm, len(pairs), float(predicted.mean()), float(effect.mean()), error))
    columns = (
        "arm",
        "edits",
        "mean predicted effect",
        "mean executed effect",
        "mean absolute error",
    )
    note = (
        "Effects on logit(target) − logit(what the model says first). Predictions are exact for the edited "
        "attention write and go through the frozen gradient from there."
    )
    note += unresolved_note(row.resolved for row in rate.rows)
    return Table("predictions", "Predicted and executed effects", columns, tuple(lines), note)


def _tries(search: Outcomes) -> Table:
    lines = []
    for case, arms in search.by_case.items():
        ordinary, source, ranked = arms["ordinary"][0], arms["emphasis"][0], arms["ranked"]
        best = max(ranked, key=lambda row: row.passed)
        shown = [f"{_quoted(row)} {row.passed}/{row.checks}" for row in (ordinary, source, best)]
        lines.append((case, ordinary.kind, *shown, best.tried))
    columns = ("case", "kind", "ordinary", "source emphasis", "best ranked edit", "its rank")
    note = "All tries are in the records; the first that passes the most checks is shown."
    return Table("tries", "The search for an example, every case", columns, tuple(lines), note)


def _quoted(row: Continuation) -> str:
    """An expression as code; a model's text may hold anything."""
    if not row.expression:
        return "nothing"
    text = row.expression.replace("`", " ")
    return f"`{text[:_SHOWN]}`" + "…" * (len(text) > _SHOWN)


def _search(search: Outcomes) -> Table:
    lines = [
        (row.case, row.kind, row.arm, row.tried, *_place(row), row.predicted, row.effect,
         row.expression, f"{row.passed}/{row.checks}", row.reason)
        for row in search.rows
        if row.arm in ("ordinary", "no-op", "ranked") or (row.arm, row.tried) == ("emphasis", 1)
    ]  # fmt: skip
    columns = ("case", "kind", "branch", "try", "edit", "layer", "token", "predicted", "executed",
               "expression", "passed", "why not computed")  # fmt: skip
    title = "Every try of the search for an example"
    return Table("search", title, columns, tuple(lines), only_csv=True)


def _place(row: Continuation) -> tuple[str | None, int | None, int | None]:
    return row.edit, row.layer, row.token


def _example(confirmed: Sequence[Confirmation], rows: Sequence[Continuation]) -> Table:
    case = confirmed[0].case
    searched = [row for row in rows if row.case == case]
    edited = next(row for row in searched if row.arm == "ranked" and row.right)
    tried = len({row.case for row in rows if row.stream == "search" and row.case <= case})
    lines = tuple(
        (
            row.branch,
            row.expression,
            f"{row.passed}/{row.checks}",
            "yes" if row.same_expression else "NO",
        )
        for row in confirmed
    )
    columns = ("branch", "expression", "checks passed", "as in the search")
    note = (
        f"Case {case}, number {tried} in the order of the search. The edit is {edited.edit} at token "
        f"{edited.token} of layer {edited.layer}, number {edited.tried} of the ranking: predicted "
        f"{edited.predicted:+.3f}, executed {edited.effect:+.3f}. Adaptively selected, with a supplied "
        f"target: it shows an executed repair and is no claim of success."
    )
    return Table("example", "The confirmed example", columns, lines, note)


def _margins(cases: Sequence[Case]) -> Table:
    lines = tuple(
        (c.case, c.kind, c.prompt_tokens, c.candidates, c.target, c.versus, c.margin,
         "yes" if c.target_first else "no")
        for c in cases
    )  # fmt: skip
    columns = ("case", "kind", "tokens", "candidates", "target", "versus", "margin", "target first")
    return Table("cases", "The cases", columns, lines, only_csv=True)
