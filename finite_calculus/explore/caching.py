"""Eviction within a budget at every layer of a captured prompt, each layer executed on its own."""

from finite_calculus.cache import evict, execute_evictions
from finite_calculus.explore.steps import Step
from finite_calculus.models import Capture, Instrument
from finite_calculus.search.specs import parse_numbers


def evicted(instrument: Instrument, capture: Capture, budget: float, protect: str) -> Step:
    """As much as ‖Δo‖ ≤ budget·‖o‖ allows; `protect` names tokens that stay, as in 0-3,17."""
    kept = parse_numbers(protect, limit=len(capture.ids), name="`protect`") if protect else ()
    plans = evict(capture, budget, relative=True, protect=kept)
    done = execute_evictions(instrument, capture, plans)
    numbers = {
        "entries": [plan.entries for plan in done],
        "figures": [plan.figure for plan in done],
        "executed": [0.0 if plan.effect is None else plan.effect for plan in done],
    }
    detail = {
        "layers": [plan.layer for plan in done],
        "tokens": [list(plan.tokens) for plan in done],
        "within": all(plan.local is None or plan.local.within_bound for plan in done),
        "divergence": [plan.divergence for plan in done],
    }
    title = f"evicted within {budget:g} of every write"
    if kept:
        title += f", but not {protect}"
    return Step(title, numbers, f"evicted({budget!r}, {kept!r})", detail)
