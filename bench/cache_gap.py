"""How far a plan's set is from the greedy rule's and, for few keys, from the largest set that there is.

    python -m bench.cache_gap [--out results/cache/gap.json]

Layers of real checkpoints on this repository's own pages: 12 tokens, where every subset is tried, and 160,
where the greedy rule takes one entry at a time. Sizes are summed over the layers.
"""

import argparse
import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus.cache import GREEDY, Chooser, QueryWindow
from finite_calculus.checkpoints import load
from finite_calculus.models import attach

ROOT = Path(__file__).parents[1]
FEW, MANY = 12, 160
BUDGETS = (0.01, 0.05, 0.2)


def main() -> None:
    """Measure, print and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--models", default="stories15m,smollm2-135m-instruct")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for name in options.models.split(","):
        model, tokenizer = load(name)
        ids = torch.tensor(tokenizer((ROOT / "README.md").read_text("utf-8"))["input_ids"])
        with attach(model) as instrument:
            for tokens in (FEW, MANY):
                capture = instrument.capture(ids[:tokens], answer=5, versus=9)
                windows = [QueryWindow.of_capture(layer) for layer in capture.layers]
                for budget in BUDGETS:
                    sizes = [_sizes(window, budget) for window in windows]
                    row = {"model": name, "tokens": tokens, "layers": len(sizes), "budget": budget}
                    names = ("ours", "greedy", "largest")
                    totals = dict(zip(names, map(sum, zip(*sizes, strict=True)), strict=True))
                    rows.append(row | totals if tokens == FEW else row | totals | {"largest": None})
                    print(json.dumps(rows[-1]), flush=True)
    content = {
        "command": "python -m bench.cache_gap " + " ".join(sys.argv[1:]),
        "made_with": {package: version(package) for package in ("torch", "transformers")},
        "rows": rows,
    }
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(content, indent=1) + "\n")


def _sizes(window: QueryWindow, budget: float) -> tuple[int, int, int]:
    allowed = window.tokens < window.tokens.max()
    ours, greedy = (
        len(Chooser(window, allowed, search=search).within(budget).evicted[0])
        for search in (None, GREEDY)
    )
    return ours, greedy, _largest(window, budget) if window.length <= FEW else 0


def _largest(window: QueryWindow, budget: float) -> int:
    """The size of the largest subset of all but the last token that keeps the budget."""
    count = window.length
    codes = torch.arange(2 ** (count - 1))
    removed: Tensor = (codes.unsqueeze(-1) >> torch.arange(count)) & 1 == 1
    values = window.values.double().repeat_interleave(window.members, 0)
    readout = fc.freeze(window.scores()[0], values, mask=window.head_mask()[0])
    writes = fc.project(
        fc.deletion_response(readout, removed).movedim(-3, -2), window.output_projection.double()
    )
    fits = writes.norm(dim=-1) / window.sizes()[0] <= budget
    return int(removed.sum(-1)[fits].max())


if __name__ == "__main__":
    main()
