"""What a model says from a reduced cache: every method with the same number of entries, on the same texts.

    python -m bench.cache_quality [--model NAME] [--texts 6] [--out results/cache/MODEL/quality.json]

A text's first tokens fill the cache, a method reduces it once, and the tokens that follow are read with it,
teacher-forced. Reported are the mean KL(everything kept ‖ reduced) per token and the log loss, text by text,
so that methods can be compared in pairs. The texts are this repository's own pages.
"""

import argparse
import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from finite_calculus.cache import (
    AttentionMass,
    KeyNorm,
    Method,
    ObservationWindow,
    Protected,
    Random,
    SinkAndRecent,
    WriteDistortion,
    WriteGradient,
    reducing,
)
from finite_calculus.checkpoints import load

ROOT = Path(__file__).parents[1]
PROMPT, AFTER = 256, 48
KEEPS = (0.5, 0.3, 0.1)


def methods(keep: float) -> dict[str, Method]:
    """Ours, the common rules, and ours with a share of both ends reserved, as a control."""
    return {
        "write distortion": WriteDistortion(keep=keep),
        "write distortion, all heads alike": WriteDistortion(keep=keep, scope="token"),
        "write distortion, one total": WriteDistortion(keep=keep, shared=True),
        "write distortion, ends kept": WriteDistortion(keep=keep, protect=Protected(ends=keep / 4)),
        "attention mass": AttentionMass(keep=keep, queries=16),
        "attention mass, ends kept": AttentionMass(
            keep=keep, queries=16, protect=Protected(ends=keep / 4)
        ),
        "observation window": ObservationWindow(keep=keep, queries=16),
        "sink and recent": SinkAndRecent(keep=keep),
        "key norm": KeyNorm(keep=keep),
        "write gradient": WriteGradient(keep=keep, queries=16),
        "random": Random(keep=keep),
    }


def main() -> None:
    """Run, print means and save every row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--texts", type=int, default=6)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    model, tokenizer = load(options.model)
    rows: list[dict[str, Any]] = []
    for number, ids in enumerate(_texts(tokenizer, options.texts)):
        ordinary = _after(model, ids)
        for keep in KEEPS:
            for name, method in methods(keep).items():
                started = time.perf_counter()
                with reducing(model, method) as reduction:
                    logits = _after(model, ids)
                rows.append(
                    {
                        "text": number,
                        "keep": keep,
                        "method": name,
                        "kl": _divergence(ordinary, logits),
                        "loss": _loss(logits, ids),
                        "loss_of_everything": _loss(ordinary, ids),
                        "kept": sum(stored for stored, _ in reduction.kept.values()),
                        "bytes": reduction.after,
                        "bytes_before": reduction.before,
                        "seconds": time.perf_counter() - started,
                    }
                )
                print(json.dumps(rows[-1]), flush=True)
        _save(options.out, rows)


def _save(out: Path | None, rows: list[dict[str, Any]]) -> None:
    content = {
        "command": "python -m bench.cache_quality " + " ".join(sys.argv[1:]),
        "made_with": {name: version(name) for name in ("torch", "transformers")},
        "prompt": PROMPT,
        "after": AFTER,
        "rows": rows,
    }
    if out is not None:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(json.dumps(content, indent=1) + "\n")


def _texts(tokenizer: Any, count: int) -> list[Tensor]:
    """Pieces of the repository's pages, none overlapping."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
    text = "\n".join(page.read_text("utf-8") for page in pages)
    ids = torch.tensor(tokenizer(text)["input_ids"])
    pieces = ids.split(PROMPT + AFTER)[:-1]
    step = max(1, len(pieces) // count)
    return list(pieces[::step][:count])


@torch.no_grad()
def _after(model: Any, ids: Tensor) -> Tensor:
    """Logits of the tokens after the prompt, each predicting the next one."""
    cache = model(input_ids=ids[None, :PROMPT], use_cache=True).past_key_values
    return model(input_ids=ids[None, PROMPT:], past_key_values=cache, use_cache=True).logits[0]


def _divergence(ordinary: Tensor, logits: Tensor) -> float:
    before, after = ordinary.double().log_softmax(-1), logits.double().log_softmax(-1)
    return float((before.exp() * (before - after)).sum(-1).mean())


def _loss(logits: Tensor, ids: Tensor) -> float:
    return float(torch.nn.functional.cross_entropy(logits[:-1].double(), ids[PROMPT + 1 :]))


if __name__ == "__main__":
    main()
