"""Evicting cache entries so that the writes of the last queries change little: Appendix G.

A plan is exact for the queries that it was made for, at each layer on its own: later queries need their own
evaluation, and layers evicted together act on one another downstream. A plan can be executed, kept installed
while text is generated (`generate_with`), or really carried out (`reducing`).
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from finite_calculus.cache.choosing import Choice, Chooser, Search
from finite_calculus.cache.protected import Protected
from finite_calculus.cache.sharing import counts_within, shared_counts
from finite_calculus.cache.trials import Over, Scope, each_prefix
from finite_calculus.cache.window import QueryWindow
from finite_calculus.deletion import select_evictions
from finite_calculus.models import Capture, Delete, Instrument, LayerCapture, Outcome
from finite_calculus.models.comparison import LocalCheck, local_check
from finite_calculus.models.sinks import null_sink
from finite_calculus.models.spans import check_places

# Called with how many layers are planned, of how many.
Told = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Eviction:
    """What one layer loses.

    `tokens` are lost in all heads; `by_block` lists those of every block of heads that decides for itself,
    a single one with the scope "token". `distortions` are ‖Δo‖₂ of each query for the whole set, `writes`
    ‖o‖₂, and `figure` is their worst or mean, relative if that was asked for. `budget` is None where a
    number of entries was asked for. `local` and `effect`, the executed change of the margin, and
    `divergence`, that of the next token in nats, are there after `execute_evictions`.
    """

    layer: int
    scope: Scope | str
    by_block: tuple[tuple[int, ...], ...]
    distortions: tuple[float, ...]
    writes: tuple[float, ...]
    figure: float
    budget: float | None
    local: LocalCheck | None = None
    effect: float | None = None
    divergence: float | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        """Tokens that every head loses."""
        common = set(self.by_block[0]).intersection(*self.by_block)
        return tuple(sorted(common))

    @property
    def entries(self) -> int:
        """Number of evicted keys over all blocks."""
        return sum(len(tokens) for tokens in self.by_block)

    @property
    def edit(self) -> Delete | None:
        """The deletion, to execute or to keep installed; None if nothing was evicted."""
        if self.scope != "token":
            raise ValueError(
                f"An eviction must have the scope 'token' to be an edit of tokens; got {self.scope!r}. "
                f"Carry it out with `reducing`."
            )
        return Delete(self.layer, self.tokens) if self.tokens else None


def evict(
    source: Capture | Sequence[QueryWindow],
    budget: float | None = None,
    *,
    count: int | None = None,
    fraction: float | None = None,
    layers: Sequence[int] | None = None,
    relative: bool = False,
    protect: Protected | Iterable[int] = (),
    over: Over | str = "worst",
    scope: Scope | str = "token",
    shared: bool = False,
    search: Search | None = None,
    groups: Sequence[tuple[int, ...]] | None = None,
    told: Told | None = None,
) -> tuple[Eviction, ...]:
    """Plan what each layer loses: as much as `budget` allows, or `count` entries, or a `fraction` of all.

    A capture stands for its one query; windows, as `watch` gives them, for their last few, whose ‖Δo‖
    count by their worst or mean (`over`), as fractions of ‖o‖ if `relative`. `scope` says whether heads
    lose tokens together, by group of keys and values, or each on its own; a count is then for each of them.
    `shared` gives all layers one budget, the mean of their figures, or one total number. `protect` keeps
    tokens; the query's own always stays. `groups` are sets of tokens to evict whole, greedily, for one
    query within a budget.
    """
    windows = _windows(source, layers)
    _check_amount(budget, count, fraction)
    keep = Protected.only(protect)
    if groups is not None:
        if not isinstance(source, Capture) or budget is None or shared or scope != "token":
            raise ValueError(
                "`groups` must come with a capture and a budget for each layer, and scope 'token'; leave "
                "`groups` out for windows, counts, shared budgets and other scopes."
            )
        for group in groups:
            check_places("groups", group, source)
        protected = {int(t) for t in keep.mask(len(source.ids)).nonzero()}
        captured = [source.layer(window.layer) for window in windows]
        return tuple(_in_groups(each, budget, relative, protected, groups) for each in captured)
    choosers = (_chooser(window, keep, scope, over, relative, search) for window in windows)
    if shared:
        return _shared(list(choosers), budget, count, fraction, scope, told)
    plans = []
    for chooser in choosers:
        number = _number(chooser, count, fraction)
        choice = chooser.within(budget) if budget is not None else chooser.best(number)
        plans.append(_planned(chooser, choice, scope, budget))
        if told is not None:
            told(len(plans), len(windows))
    return tuple(plans)


def execute_evictions(
    instrument: Instrument, capture: Capture, plans: Sequence[Eviction]
) -> tuple[Eviction, ...]:
    """The plans with what the model did for the captured query, each layer on its own."""
    edits = [plan.edit for plan in plans]
    deletions = [edit for edit in edits if edit is not None]
    if not deletions:
        return tuple(plans)
    execution = instrument.execute(capture, deletions, keep_logits=True)
    with torch.no_grad():
        ordinary = instrument.prompt(capture.ids).run_last()[0].cpu()
    outcomes = iter(execution.outcomes)
    return tuple(
        plan if edit is None else _executed(plan, edit, next(outcomes), ordinary)
        for plan, edit in zip(plans, edits, strict=True)
    )


def divergence(ordinary: torch.Tensor, changed: torch.Tensor) -> float:
    """KL(ordinary ‖ changed) of the next token, in nats, from logits."""
    before, after = (x.double().log_softmax(-1) for x in (ordinary, changed))
    return float((before.exp() * (before - after)).sum(-1).clamp(min=0.0))


def _executed(plan: Eviction, edit: Delete, outcome: Outcome, ordinary: torch.Tensor) -> Eviction:
    logits = ordinary if outcome.logits is None else outcome.logits
    return replace(
        plan,
        local=local_check(edit, outcome),
        effect=outcome.effect,
        divergence=divergence(ordinary, logits),
    )


def _windows(
    source: Capture | Sequence[QueryWindow], layers: Sequence[int] | None
) -> list[QueryWindow]:
    if isinstance(source, Capture):
        numbers = [layer.layer for layer in source.layers] if layers is None else list(layers)
        return [QueryWindow.of_capture(source.layer(number)) for number in numbers]
    windows = {window.layer: window for window in source}
    numbers = list(windows) if layers is None else list(layers)
    unknown = [number for number in numbers if number not in windows]
    if unknown or not numbers:
        raise ValueError(
            f"`layers` must name layers that have a window, {sorted(windows)}; got {numbers}."
        )
    return [windows[number] for number in numbers]


def _check_amount(budget: float | None, count: int | None, fraction: float | None) -> None:
    given = [name for name in (budget, count, fraction) if name is not None]
    if len(given) != 1:
        raise ValueError(
            f"Exactly one of `budget`, `count` and `fraction` must be given; got {len(given)} of them."
        )
    if budget is not None and not 0 <= budget < torch.inf:
        raise ValueError(
            f"`budget` must be a non-negative finite number; got {budget}. Use 0 to evict nothing."
        )
    if fraction is not None and not 0 <= fraction < 1:
        raise ValueError(f"`fraction` must be at least 0 and below 1; got {fraction}.")


def _chooser(
    window: QueryWindow,
    keep: Protected,
    scope: Scope | str,
    over: Over | str,
    relative: bool,
    search: Search | None,
) -> Chooser:
    protected = keep.mask(int(window.tokens.max()) + 1)[window.tokens]
    allowed = window.attended.any(0) & ~protected
    return Chooser(window, allowed, scope=scope, over=over, relative=relative, search=search)


def _number(chooser: Chooser, count: int | None, fraction: float | None) -> int:
    if count is not None or fraction is None:
        return 0 if count is None else count
    attended = chooser.window.attended.any(0).sum(-1)
    return min(int(fraction * int(attended.min())), int(chooser.allowed.sum(-1).min()))


def _planned(
    chooser: Chooser, choice: Choice, scope: Scope | str, budget: float | None
) -> Eviction:
    window, size = chooser.window, chooser.window.heads // len(choice.evicted)
    by_block = tuple(
        tuple(window.tokens[block * size // window.members, list(columns)].tolist())
        for block, columns in enumerate(choice.evicted)
    )
    writes = tuple(window.sizes().tolist())
    return Eviction(
        window.layer, scope, by_block, choice.distortions, writes, choice.figure, budget
    )


def _shared(
    choosers: Sequence[Chooser],
    budget: float | None,
    count: int | None,
    fraction: float | None,
    scope: Scope | str,
    told: Told | None,
) -> tuple[Eviction, ...]:
    """One budget for all layers; `count` is then the total of one block over the layers."""
    curves = []
    for number, chooser in enumerate(choosers, 1):
        order = chooser.order(int(chooser.allowed.sum(-1).min()))
        curves.append(each_prefix(chooser.trials, order)[:: len(chooser.trials.blocks)])
        if told is not None:
            told(number, 2 * len(choosers))
    if budget is not None:
        counts = counts_within(curves, budget)
    else:
        total = count if count is not None else sum(_number(c, None, fraction) for c in choosers)
        counts = shared_counts(curves, total)
    plans = []
    for number, (chooser, some) in enumerate(zip(choosers, counts, strict=True), 1):
        plans.append(_planned(chooser, chooser.best(some), scope, budget))
        if told is not None:
            told(len(choosers) + number, 2 * len(choosers))
    return tuple(plans)


def _in_groups(
    layer: LayerCapture,
    budget: float,
    relative: bool,
    protected: set[int],
    groups: Sequence[tuple[int, ...]],
) -> Eviction:
    """Whole groups of tokens, by the greedy rule of the core."""
    window = QueryWindow.of_capture(layer)
    write = float(window.sizes()[0])
    allowed = budget * write if relative else budget
    usable = [place for place in groups if _usable(layer, place, protected)]
    rows = torch.zeros(len(usable), layer.keys.shape[1], dtype=torch.bool)
    for row, place in zip(rows, usable, strict=True):
        row[[layer.column(token) for token in place]] = True
    rows = null_sink(rows, layer.sinks)
    plan = select_evictions(layer.readout(), rows, layer.output_projection.double(), allowed)
    tokens = tuple(token for index in plan.evicted for token in usable[index])
    distortion = plan.distortions[-1] if plan.distortions else 0.0
    figure = distortion / write if relative else distortion
    return Eviction(layer.layer, "token", (tokens,), (distortion,), (write,), figure, budget)


def _usable(layer: LayerCapture, place: tuple[int, ...], protected: set[int]) -> bool:
    if protected.intersection(place):
        return False
    return all(t in layer.tokens and bool(layer.attended[t - layer.first]) for t in place)
