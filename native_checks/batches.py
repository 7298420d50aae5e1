"""Checks of execution: continuation, batches, isolation of rows and prefix, three paths, dead hooks.

Where the same kernels run on the same numbers, bits are compared. Where they do not, margins are
compared within the rounding budget of one margin (`finite_calculus.models.noise`), which is first-order and
probabilistic: nothing downstream of a write is exact, it is checked by being executed.
"""

import torch

from finite_calculus.models import Execution
from finite_calculus.models.baseline import batch_baseline
from finite_calculus.models.bounds import local_error
from native_checks.bench import Bench
from native_checks.records import GateCheck, compared, counted

_BUDGET = "two margins, each within 8u·√Σ(g·spread)² over all modules (first-order, probabilistic)"
_PAIRS = 32


def full_matches_cached(bench: Bench) -> GateCheck:
    """The margin of one full forward pass against prefix and cached last token."""
    with torch.no_grad():
        full = bench.instrument.model(input_ids=bench.ids.unsqueeze(0), use_cache=False).logits[
            0, -1
        ]
    margin = bench.capture.margin.of(full.double())
    return _margins("full against cached", margin, bench)


def single_matches_batch(bench: Bench) -> GateCheck:
    """The margin of a single row against every row of an unedited batch."""
    rows = batch_baseline(bench.instrument.prompt(bench.ids), bench.batch)
    margins = bench.capture.margin.of(rows.logits.double())
    return _margins("single against batch", margins, bench)


def rows_are_isolated(bench: Bench) -> GateCheck:
    """The unedited row of every batch repeats its control while all other rows are edited."""
    drifts = torch.tensor([o.drift for o in bench.resumed.outcomes], dtype=torch.float64)
    if any("experts" in name for name, _ in bench.instrument.model.named_modules()):
        return _margins("rows are isolated", bench.capture.baseline + drifts, bench)
    return counted("rows are isolated", int((drifts != 0).sum()), "batches whose row 0 moved a bit")


def prefix_is_untouched(bench: Bench) -> GateCheck:
    """Executing a battery of edits leaves every key and value of the prefix as it was."""
    prefix = bench.instrument.prefix(bench.ids)
    before = prefix.digest()
    bench.instrument.execute(bench.capture, bench.edits[:8], batch=bench.batch)
    after = prefix.digest()
    return counted("prefix is untouched", int(before != after), "sha256 of all cached keys, values")


def reruns_are_identical(bench: Bench) -> GateCheck:
    """The same edits, executed again, give the same bits."""
    again = bench.instrument.execute(bench.capture, bench.edits, batch=bench.batch)
    return counted("reruns are identical", _different(bench.resumed, again), "edits that differ")


def paths_agree(bench: Bench) -> GateCheck:
    """Resumption from the edited layer against the whole model, bit for bit."""
    if any("experts" in name for name, _ in bench.instrument.model.named_modules()):
        return compared(
            "two paths agree",
            bench.resumed.margins - bench.whole.margins,
            torch.full_like(bench.whole.margins, 2 * bench.budget),
            bench.whole.margins,
            _BUDGET,
        )
    return counted("two paths agree", _different(bench.resumed, bench.whole), "edits that differ")


def shared_path_agrees(bench: Bench) -> tuple[GateCheck, GateCheck]:
    """Margins on the fast path against the native ones: of the controls and of every edit."""
    drifts = torch.tensor([o.drift for o in bench.shared.outcomes], dtype=torch.float64)
    return (
        _margins("shared path, controls", bench.capture.baseline + drifts, bench),
        compared(
            "shared path, effects",
            bench.shared.effects - bench.resumed.effects,
            torch.full_like(bench.shared.effects, 4 * bench.budget),
            bench.resumed.margins,
            "four margins, each within the rounding budget of the unedited one",
        ),
    )


def batch_sizes_agree(bench: Bench) -> GateCheck:
    """Effects of the battery in large batches against pairs of one control and one edit."""
    # Pairs resume the model once per edit: on deep models a sample over all layers has to do.
    every = max(1, len(bench.edits) // _PAIRS)
    pairs = bench.instrument.execute(bench.capture, bench.edits[::every], batch=2)
    return compared(
        "batch sizes agree",
        bench.resumed.effects[::every] - pairs.effects,
        torch.full_like(pairs.effects, 4 * bench.budget),
        pairs.margins,
        "four margins, each within the rounding budget of the unedited one",
    )


def idle_edits_change_nothing(bench: Bench) -> GateCheck:
    """Edits that leave every tensor as it is leave every margin and write as it is, bit for bit."""
    execution = bench.instrument.execute(bench.capture, bench.idle, batch=bench.batch)
    outcomes = execution.outcomes
    moved = sum(o.effect != 0 or not torch.equal(o.write, o.control_write) for o in outcomes)
    return counted("idle edits change nothing", moved, f"of {len(outcomes)} edits that move")


def live_edits_change_something(bench: Bench) -> GateCheck:
    """At every layer some edit moves the write by more than rounding could: no dead hook.

    Not every edit has to: tokens whose attention is zero may be edited without any effect.
    """
    moved: dict[int, float] = {}
    for outcome in bench.resumed.outcomes:
        apart = (outcome.write.double() - outcome.control_write.double()).abs()
        rounding = local_error(
            outcome.layer,
            kernels=outcome.kernels and outcome.kernels.control,
            executed=outcome.control_output,
        )
        ratio = float((apart / (2 * rounding.write)).max())
        moved[outcome.layer.layer] = max(ratio, moved.get(outcome.layer.layer, 0.0))
    least = min(moved.values())
    return GateCheck(
        "live edits change something",
        least,
        1.0,
        "largest Δo of a layer in units of the rounding of two writes, least over layers",
        passed=least > 1,
        at_least=True,
    )


def _margins(name: str, margins: torch.Tensor, bench: Bench) -> GateCheck:
    margins = margins.reshape(-1).cpu()
    apart = margins - bench.capture.baseline
    return compared(name, apart, torch.full_like(apart, 2 * bench.budget), margins, _BUDGET)


def _different(first: Execution, second: Execution) -> int:
    return sum(
        a.margin != b.margin
        or not torch.equal(a.output, b.output)
        or not torch.equal(a.write, b.write)
        for a, b in zip(first.outcomes, second.outcomes, strict=True)
    )
