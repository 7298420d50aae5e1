"""Runs that differ by rounding alone, and planted faults: how often `compare-cache` is right.

    python -m bench.cache_rounding [--runs 1000] [--out results/cache/rounding.json]

Every run has its own batch size and its own chunks of the prefill. Every fault is planted in a run and
counted as named if its layer and heads are; it is drawn anew each time, its size included.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from finite_calculus.cache import CacheRecord, compare_caches, record, rounding_spread
from finite_calculus.cache.passing import passing
from finite_calculus.models import attach, supported
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.tiny import tiny_model
from finite_calculus.rotary import rotate

FAMILIES = ("llama", "qwen2", "gpt2", "gemma2", "gpt_oss", "mistral")
PROMPTS, TOKENS, FAULTS = 2, 24, 50


def main() -> None:
    """Count, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    draw = random.Random(0)
    cases = [_Case(name, seed) for name in FAMILIES for seed in range(PROMPTS)]
    ratios = [cases[number % len(cases)].rounding(draw) for number in range(options.runs)]
    faults = {kind: _named(cases, kind, draw) for kind in _FAULTS}
    content = {
        "command": "python -m bench.cache_rounding " + " ".join(sys.argv[1:]),
        "made_with": {name: version(name) for name in ("torch", "transformers")},
        "runs": options.runs,
        "called_rounding": sum(ratio <= 1 for ratio in ratios),
        "equal_bits": sum(ratio == 0 for ratio in ratios),
        "largest_ratio": max(ratios),
        "median_ratio": sorted(ratios)[len(ratios) // 2],
        "faults": faults,
    }
    print(json.dumps(content, indent=1))
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(content, indent=1) + "\n")


class _Case:
    """A model and a prompt with its recorded run."""

    def __init__(self, name: str, seed: int) -> None:
        self.model, draw = tiny_model(name), torch.Generator().manual_seed(seed)
        self.ids, self.others = torch.randint(3, 96, (2, TOKENS), generator=draw)
        self.record, self.spread = (
            record(self.model, self.ids),
            rounding_spread(self.model, self.ids),
        )

    def rounding(self, draw: random.Random) -> float:
        """The largest ratio of a run with another batch and other chunks."""
        chunk = draw.choice([None, *range(1, TOKENS)])
        other = record(self.model, self.ids, rows=draw.randint(1, 9), chunk=chunk)
        layers = compare_caches(self.record, other, self.spread).layers
        return max(max(x.keys, x.values, x.outputs or 0.0) for x in layers)


def _named(cases: list[_Case], kind: str, draw: random.Random) -> dict[str, int]:
    """How many planted faults were seen, and seen in their layer and heads."""
    seen = right = 0
    usable = [case for case in cases if kind != "one shifted position" or _rotates(case)]
    for number in range(FAULTS):
        case = usable[number % len(usable)]
        layer, other, heads, part = _FAULTS[kind](case, draw)
        first = compare_caches(case.record, other, case.spread).first
        seen += first is not None
        right += first is not None and (first.layer, first.part, first.heads) == (
            layer,
            part,
            heads,
        )
    return {"planted": FAULTS, "seen": seen, "named": right}


def _rotates(case: _Case) -> bool:
    with attach(case.model) as instrument:
        return all(probed.rotary is not None for probed in instrument.probed)


def _scaled(case: _Case, draw: random.Random) -> tuple[int, CacheRecord, tuple[int, ...], str]:
    layer, head = draw.randrange(3), draw.randrange(len(case.record.keys[0]))
    factor = 1 + draw.choice([-1, 1]) * 10 ** draw.uniform(-3, -1)

    def scale(keys: Tensor, values: Tensor, number: int) -> tuple[Tensor, Tensor]:
        if number == layer:
            keys[head] *= factor
        return keys, values

    return layer, record(case.model, case.ids, transform=scale), (head,), "keys"


def _shifted(case: _Case, draw: random.Random) -> tuple[int, CacheRecord, tuple[int, ...], str]:
    layer, token = draw.randrange(3), draw.randrange(TOKENS)
    with attach(case.model) as instrument:
        rotary = instrument.probed[layer].rotary

    def shift(keys: Tensor, values: Tensor, number: int) -> tuple[Tensor, Tensor]:
        if number == layer and rotary is not None and keys.shape[1] > token:
            keys[:, token] = rotate(rotary, keys[:, token].double(), 1.0).float()
        return keys, values

    heads = tuple(range(len(case.record.keys[0])))
    return layer, record(case.model, case.ids, transform=shift), heads, "keys"


def _stale(case: _Case, draw: random.Random) -> tuple[int, CacheRecord, tuple[int, ...], str]:
    layer, page = draw.randrange(3), draw.randrange(0, TOKENS, 4)
    old, some = record(case.model, case.others), slice(page, page + 4)

    def stale(keys: Tensor, values: Tensor, number: int) -> tuple[Tensor, Tensor]:
        if number == layer:
            keys[:, some], values[:, some] = old.keys[layer][:, some], old.values[layer][:, some]
        return keys, values

    heads = tuple(range(len(case.record.keys[0])))
    return layer, record(case.model, case.ids, transform=stale), heads, "keys"


def _masked(case: _Case, draw: random.Random) -> tuple[int, CacheRecord, tuple[int, ...], str]:
    layer, head = draw.randrange(3), draw.randrange(6)

    def mask(site: Any, call: AttentionCall) -> AttentionCall:
        if site.layer != layer:
            return call
        rows, heads, queries, _ = call.query.shape
        seen = torch.ones(queries, queries, dtype=torch.bool).tril()
        window = call.options.get("sliding_window")
        seen = seen if window is None else seen.triu(1 - window)
        seen = seen.repeat(rows, heads, 1, 1)
        seen[:, head, 1:] = seen[:, head, :-1].clone()
        added = torch.zeros(seen.shape).masked_fill(~seen, torch.finfo(torch.float32).min)
        return AttentionCall(call.query, call.key, call.value, added, call.options)

    with passing(case.model, supported(case.model).sites, mask):
        return layer, record(case.model, case.ids), (head,), "outputs"


_Plant = Callable[[_Case, random.Random], tuple[int, CacheRecord, tuple[int, ...], str]]
_FAULTS: dict[str, _Plant] = {
    "a wrong scale in one head": _scaled,
    "one shifted position": _shifted,
    "a stale page": _stale,
    "a mask off by one in one head": _masked,
}

if __name__ == "__main__":
    main()
