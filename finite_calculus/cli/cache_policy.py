"""Policies on the command line: emitted by `kv-error --emit-policy`, applied by `restore --policy`."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from finite_calculus.cli.outputs import save_json
from finite_calculus.cli.progress import Units
from finite_calculus.cli.question import Question, captured, described, headline, or_refuse, show
from finite_calculus.cli.rows import tell_floor

if TYPE_CHECKING:
    from collections.abc import Sequence

    from finite_calculus.cache import Allotment, CacheError, Policy, QueryWindow
    from finite_calculus.models import Floor


def emitted(
    windows: "Sequence[QueryWindow]",
    path: Path,
    *,
    budget: float | None,
    levels: str,
    rounding: str,
    quiet: bool,
) -> "tuple[Policy, dict[str, Any]]":
    """Search a policy, save it, say what it is beside uniform bits; the policy and its figures."""
    from finite_calculus.cache import Rounding, allot
    from finite_calculus.search.specs import parse_numbers

    if budget is None:
        raise typer.BadParameter("--emit-policy needs --budget, in bits of memory a number.")
    kind, _, axis = rounding.partition("/")
    if kind not in ("sym", "asym"):
        raise typer.BadParameter(f"--rounding must be sym/AXIS or asym/AXIS; got {rounding!r}.")

    def searched() -> "Allotment":
        ladder = sorted(parse_numbers(levels, limit=33, name="--levels"))
        with Units(quiet, "rounds") as report:
            return allot(
                windows,
                budget,
                levels=ladder,
                rounding=Rounding(kind == "sym", axis),
                told=lambda done, total: report("searched", done, total),
            )

    found = or_refuse(searched)
    best = found.best
    best.policy.save(path)
    uniform = f"keys {found.pair[0]}, values {found.pair[1]}"
    rows = [
        [name, f"{outcome.bits:.3f}", f"{(outcome.total / len(outcome.errors)) ** 0.5:.4g}"]
        for name, outcome in (("by benefit", found.searched), (uniform, found.uniform))
    ]
    show(f"bits within {budget:g} a number", ["bits", "memory", "rms ‖Δo‖/‖o‖"], rows)
    show("bits of the policy, shares of entries", *_shares(best.policy))
    if best is found.uniform:
        print(f"uniform bits are better than the search here: the policy is {uniform}.")
    print(f"policy: {path}")
    content = {
        "budget": budget,
        "bits": best.bits,
        "errors": best.errors,
        "uniform": {
            "pair": found.pair,
            "bits": found.uniform.bits,
            "errors": found.uniform.errors,
        },
    }
    return best.policy, content


def _shares(policy: "Policy") -> tuple[list[str], list[list[str]]]:
    """Layer by layer, how many of its keys and values have how many bits."""
    levels = sorted(
        {int(b) for part in (policy.keys, policy.values) for x in part.values() for b in x.unique()}
    )
    rows = [
        [
            str(layer),
            part,
            *(f"{float((bits[layer] == level).double().mean()):.2f}" for level in levels),
        ]
        for layer in policy.keys
        for part, bits in (("keys", policy.keys), ("values", policy.values))
    ]
    return ["layer", "", *map(str, levels)], rows


def applied(question: Question, path: Path, *, window: int, generate: int) -> None:
    """Read a prompt's cache through a policy: exact errors, executed effects and the text that follows."""
    from finite_calculus.cache import Policy, altered_caches, cache_error, generate_from, watch

    policy = or_refuse(lambda: Policy.load(path))
    with captured(question) as (instrument, capture):
        numbers = [layer.layer for layer in capture.layers]
        windows = watch(instrument.model, capture.ids, queries=window, layers=numbers)
        error = or_refuse(lambda: cache_error(instrument, capture, windows, policy))
        floor, text = instrument.floor(capture), None
        if generate:
            altered = altered_caches(windows, policy)
            text = asdict(
                or_refuse(lambda: generate_from(instrument, capture, altered, tokens=generate))
            )
    print(headline(question, capture))
    show_layers(error, f"read as {path.name} says, each layer on its own", floor)
    if text is not None:
        rows = [[name, repr(words)] for name, words in text.items()]
        show("generated, all layers together", ["cache", "generated"], rows)
    content = {"policy": policy.content(), "generated": text}
    content |= {"noise_floor": floor.value, "error": error_entry(error, floor)}
    save_json(question.json_file, described(question, capture, **content))


def error_entry(error: "CacheError", floor: "Floor") -> dict[str, Any]:
    """The errors of a cache for JSON, each executed effect with whether it is resolved."""
    entry = asdict(error) | floor.entry(error.effect)
    for layer in entry["layers"]:
        layer |= floor.entry(layer["effect"])
    return entry


def show_layers(error: "CacheError", title: str, floor: "Floor") -> None:
    """Exact changes of each layer's writes and what the model did, heaviest first."""
    rows = [
        [
            str(layer.layer),
            f"{layer.mean:.4g}",
            f"{max(layer.relative):.4g}",
            floor.cell(layer.effect),
            f"{layer.divergence:.2e}",
        ]
        for layer in error.layers
    ]
    show(title, ["layer", "mean ‖Δo‖/‖o‖", "worst", "effect", "KL"], rows)
    print(f"all layers together: effect {floor.cell(error.effect)}, KL {error.divergence:.3e}")
    tell_floor(floor, [*(layer.effect for layer in error.layers), error.effect])
