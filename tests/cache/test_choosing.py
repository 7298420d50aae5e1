"""Sets of evictions: their figures, the greedy rule, the true optimum, counts and shared budgets."""

import itertools

import pytest
import torch

import finite_calculus as fc
from finite_calculus.cache import GREEDY, Chooser, QueryWindow, Search, evict
from finite_calculus.cache.sharing import counts_within, shared_counts
from finite_calculus.cache.trials import Measure, Trials, each_prefix
from tests.cache.windows import drawn_window, written

SCOPES = ("token", "group", "head")


def allowed_of(window: QueryWindow) -> torch.Tensor:
    """All but the last token."""
    return window.tokens < window.length - 1


def exact_figure(window: QueryWindow, evicted: torch.Tensor, over: str = "worst") -> float:
    """The figure of a set from two writes subtracted."""
    before = written(window, torch.zeros_like(evicted))
    apart = (written(window, evicted) - before).norm(dim=-1) / before.norm(dim=-1)
    return float(apart.max() if over == "worst" else apart.mean())


def trial_slack(window: QueryWindow, evicted: torch.Tensor) -> float:
    """What a trial of a set may be off by: the root of the roundings of a square of all heads' pulls."""
    reach = torch.linalg.matrix_norm(window.output_projection.double(), dim=(-2, -1)).sum()
    spread = 2 * window.values.double().norm(dim=-1).max()
    terms = window.length + window.heads**2 + window.output_projection[0].numel()
    rest = 1 - torch.where(evicted, window.probs(), 0.0).sum(-1)
    scale = reach * spread / window.sizes().min() / rest.min()
    return float((terms * torch.finfo(torch.float64).eps) ** 0.5 * scale)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("sinks", [False, True])
@pytest.mark.parametrize("over", ["worst", "mean"])
def test_trials_are_the_figures_of_sets_that_differ_by_one(scope, sinks, over) -> None:
    window = drawn_window(sinks=sinks)
    trials = Trials(window, scope, Measure(over, window.sizes()), torch.ones(8, dtype=torch.bool))
    size = window.heads // len(trials.blocks)
    trials.place([torch.tensor([1, 2]) for _ in trials.blocks])
    for block in range(len(trials.blocks)):
        figures = trials.figures(block, torch.arange(5))
        for column in range(5):
            gone = trials.gone.clone()
            gone[block, column] ^= True
            heads = gone.repeat_interleave(size, 0)
            slack = trial_slack(window, heads)
            assert slack < 1e-3
            assert abs(float(figures[column]) - exact_figure(window, heads, over)) <= slack


@pytest.mark.parametrize("scope", SCOPES)
def test_every_prefix_has_the_figure_of_its_set(scope) -> None:
    window = drawn_window(sinks=True)
    chooser = Chooser(window, allowed_of(window), scope=scope, search=GREEDY)
    order = chooser.order(5)
    figures = each_prefix(chooser.trials, order)
    assert len(figures) == len(order) + 1 == 5 * len(chooser.trials.blocks) + 1
    for count in range(len(order) + 1):
        gone = torch.zeros_like(chooser.trials.gone)
        for block, column in order[:count]:
            gone[block, column] = True
        size = window.heads // len(gone)
        heads = gone.repeat_interleave(size, 0)
        apart = abs(float(figures[count]) - exact_figure(window, heads))
        assert apart <= trial_slack(window, heads)


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("over", ["worst", "mean"])
def test_a_choice_keeps_its_budget_exactly_and_leaves_no_room(scope, over) -> None:
    for seed in range(4):
        window = drawn_window(keys=12, seed=seed)
        chooser = Chooser(window, allowed_of(window), scope=scope, over=over)
        for budget in (0.1, 0.5):
            choice = chooser.within(budget)
            gone = torch.zeros(len(choice.evicted), window.length, dtype=torch.bool)
            for row, columns in zip(gone, choice.evicted, strict=True):
                row[list(columns)] = True
            size = window.heads // len(gone)
            heads = gone.repeat_interleave(size, 0)
            assert choice.figure == pytest.approx(exact_figure(window, heads, over), rel=1e-9)
            assert choice.figure <= budget
            assert not gone[:, -1].any()
            for block, column in (chooser.allowed & ~gone).nonzero().tolist():
                more = gone.clone()
                more[block, column] = True
                more = more.repeat_interleave(size, 0)
                if bool((window.head_mask() & ~more).any(-1).all()):
                    slack = trial_slack(window, more)
                    assert exact_figure(window, more, over) > budget - slack


def test_blocks_of_one_are_the_greedy_rule_of_the_core() -> None:
    for seed in range(6):
        window = drawn_window(queries=1, keys=14, seed=seed)
        scores, values = window.scores()[0], window.values.double().repeat_interleave(2, 0)
        plan = fc.select_evictions(
            fc.freeze(scores, values),
            torch.eye(14, dtype=torch.bool)[:-1],
            window.output_projection.double(),
            0.4 * float(window.sizes()[0]),
        )
        choice = Chooser(window, allowed_of(window), search=GREEDY).within(0.4)
        assert choice.evicted == (tuple(sorted(plan.evicted)),)
        assert choice.distortions[0] == pytest.approx(plan.distortions[-1], rel=1e-9)


def test_a_choice_lies_between_the_greedy_rule_and_the_true_optimum() -> None:
    better = 0
    for seed in range(8):
        window = drawn_window(queries=1, keys=10, seed=seed)
        subsets = [
            columns for size in range(10) for columns in itertools.combinations(range(9), size)
        ]
        removed = torch.zeros(len(subsets), 10, dtype=torch.bool)
        for row, columns in zip(removed, subsets, strict=True):
            row[list(columns)] = True
        values = window.values.double().repeat_interleave(2, 0)
        response = fc.deletion_response(fc.freeze(window.scores()[0], values), removed)
        writes = fc.project(response.movedim(-3, -2), window.output_projection.double())
        figures = writes.norm(dim=-1) / window.sizes()[0]
        optimum = int(removed.sum(-1)[figures <= 0.4].max())
        allowed = allowed_of(window)
        greedy = len(Chooser(window, allowed, search=GREEDY).within(0.4).evicted[0])
        size = len(Chooser(window, allowed).within(0.4).evicted[0])
        assert greedy <= size <= optimum
        better += size > greedy
    assert better


@pytest.mark.parametrize("scope", SCOPES)
def test_a_count_is_kept_by_every_block_and_exchanges_only_help(scope) -> None:
    window = drawn_window(keys=16)
    plain = Chooser(window, allowed_of(window), scope=scope, search=Search(exchanges=0)).best(9)
    choice = Chooser(window, allowed_of(window), scope=scope, search=Search(exchanges=4)).best(9)
    assert {len(columns) for columns in choice.evicted} == {9}
    gone = torch.zeros(len(choice.evicted), window.length, dtype=torch.bool)
    for row, columns in zip(gone, choice.evicted, strict=True):
        row[list(columns)] = True
    slack = trial_slack(window, gone.repeat_interleave(window.heads // len(gone), 0))
    assert choice.figure <= plain.figure + slack
    with pytest.raises(ValueError, match="`count` must be between 0 and 15"):
        Chooser(window, allowed_of(window), scope=scope).best(16)


def test_shared_counts_take_the_cheapest_marginals() -> None:
    curves = [torch.tensor([0.0, 1.0, 3.0, 7.0]), torch.tensor([0.0, 0.5, 1.0, 9.0])]
    best = min((float(curves[0][a] + curves[1][3 - a]), a) for a in range(4))
    assert shared_counts(curves, 3) == (best[1], 3 - best[1]) == (1, 2)
    assert shared_counts(curves, 6) == (3, 3)
    assert counts_within(curves, 1.0) == (1, 2)
    with pytest.raises(ValueError, match="`total` must be between 0 and the 6"):
        shared_counts(curves, 7)


def test_evictions_from_windows_say_what_each_layer_loses(embedded) -> None:
    capture = embedded.capture
    plans = evict(capture, fraction=0.5, relative=True, layers=[1, 2])
    assert {len(plan.tokens) for plan in plans} == {int(0.5 * len(capture.ids))}
    shared = evict(capture, fraction=0.5, relative=True, layers=[1, 2], shared=True)
    assert sum(plan.entries for plan in shared) == sum(plan.entries for plan in plans)
    told: list[tuple[int, int]] = []
    by_group = evict(
        capture, 0.1, scope="group", relative=True, layers=[2], told=lambda *n: told.append(n)
    )
    assert told == [(1, 1)]
    assert by_group[0].figure <= 0.1
    with pytest.raises(ValueError, match="scope 'token' to be an edit"):
        _ = by_group[0].edit
    within = evict(capture, 0.1, relative=True, shared=True)
    assert sum(plan.figure for plan in within) / len(within) <= 0.1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": float("nan")}, "`budget` must be a non-negative finite number; got nan"),
        ({"budget": -1.0}, "`budget` must be a non-negative finite number"),
        ({}, "Exactly one of `budget`, `count` and `fraction`"),
        ({"budget": 1.0, "count": 3}, "Exactly one of"),
        ({"fraction": 1.0}, "`fraction` must be at least 0 and below 1"),
        ({"count": 10_000}, "`count` must be between 0"),
        ({"budget": 1.0, "over": "most"}, "`over` must be one of"),
        ({"budget": 1.0, "scope": "layer"}, "`scope` must be one of"),
        ({"budget": 1.0, "protect": (9999,)}, "`protect` must name tokens in 0"),
        ({"count": 1, "groups": [(0, 1)]}, "`groups` must come with a capture and a budget"),
        ({"budget": 1.0, "layers": [99]}, "`layer` must be one of the captured layers"),
    ],
)
def test_mistakes_are_refused(llama, options: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        evict(llama.capture, **options)


def test_settings_of_a_search_are_checked() -> None:
    with pytest.raises(ValueError, match="`parts` must be at least 1; got 0"):
        Search(parts=0)
    with pytest.raises(ValueError, match="`exchanges` must be at least 0; got -1"):
        Search(exchanges=-1)
    sizes = [Search().of(keys, counted=False) for keys in (774, 32_768)]
    assert sizes == [(16, 3), (4, 0)]
    assert Search().of(774, counted=True) == (8, 0)
    with pytest.raises(ValueError, match="`least` must be at least 1; got 0"):
        Search(least=0)


def test_a_block_has_at_least_so_many_entries() -> None:
    window = drawn_window(keys=16)
    chooser = Chooser(window, allowed_of(window), search=Search(least=6))
    singles = chooser.trials.figures(0, torch.arange(15))
    first = set(singles.argsort()[:6].tolist())
    assert set(chooser.best(6).evicted[0]) == first
    one_by_one = Chooser(window, allowed_of(window), search=GREEDY).best(6)
    assert set(one_by_one.evicted[0]) != first
