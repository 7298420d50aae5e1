"""The silent failure of few-bit keys in a model with large key biases, made small, and what a policy does.

    python -m bench.cache_biases [--prompts 12] [--out results/cache/embedded/biases.json] [--save FOLDER]

The embedded checkpoint gets a large bias on the slowest rotary pair of every key, which moves every score of
a query by nearly the same amount and so hardly what the model says; but a key's scale now follows the bias,
and few bits leave nothing of the rest. Prompts are the paper's retrieval pairs; a policy is made for each
prompt, on its last queries, at the memory of the uniform bits beside it.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

from finite_calculus.cache import (
    Policy,
    Quantiser,
    Rounding,
    allot,
    cache_error,
    watch,
)
from finite_calculus.cache.records import Transform
from finite_calculus.checkpoints import load
from finite_calculus.models import attach
from finite_calculus.tasks.synthetic import retrieval_pair

BIAS, QUERIES = 150.0, 8
# Bits of memory a number: what uniform bits of 4 take with a scale for each vector of this model.
ROUNDING = Rounding(symmetric=True)


def bias_keys(model: Any, size: float) -> None:
    """Add a bias to the slowest rotary pair of every key head."""
    width = model.config.head_dim if hasattr(model.config, "head_dim") else None
    for layer in model.model.layers:
        attention = layer.self_attn
        heads = attention.k_proj.bias.data.view(-1, width or attention.head_dim)
        heads[:, heads.shape[1] // 2 - 1] += size
        heads[:, -1] += size


def main() -> None:
    """Count right answers, and save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prompts", type=int, default=12)
    parser.add_argument("--bias", type=float, default=BIAS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--save", type=Path, help="keep the biased model as a folder")
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for bias in (0.0, options.bias):
        model, tokenizer = load("embedded")
        bias_keys(model, bias)
        if bias and options.save is not None:
            model.save_pretrained(options.save)
            tokenizer.save_pretrained(options.save)
        with attach(model, tokenizer=tokenizer) as instrument:
            for number in range(options.prompts):
                for row in _prompt(instrument, number):
                    rows.append({"bias": bias, "prompt": number} | row)
    for bias in (0.0, options.bias):
        for name in dict.fromkeys(row["cache"] for row in rows):
            some = [row for row in rows if row["bias"] == bias and row["cache"] == name]
            right, kl = (sum(row[x] for row in some) / len(some) for x in ("right", "kl"))
            bits = sum(row["bits"] for row in some) / len(some)
            print(f"bias {bias:g}: {name:24} {bits:6.3f} bits, {right:.0%} right, KL {kl:.3g}")
    content = {
        "command": "python -m bench.cache_biases " + " ".join(sys.argv[1:]),
        "made_with": {name: version(name) for name in ("torch", "transformers")},
        "rows": rows,
    }
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(content, indent=1) + "\n")


def _prompt(instrument: Any, number: int) -> Iterator[dict[str, Any]]:
    prompt, _ = retrieval_pair(number)
    message = [{"role": "user", "content": prompt.text}]
    text = instrument.tokenizer.apply_chat_template(
        message, tokenize=False, add_generation_prompt=True
    )
    wrong = "AB".replace(prompt.answer, "")
    capture = instrument.capture(text, answer=prompt.answer, versus=wrong)
    windows = watch(instrument.model, capture.ids, queries=QUERIES)
    width = windows[0].keys.shape[-1]
    caches: dict[str, tuple[float, Callable[[], Transform]]] = {
        "as stored": (32.0, lambda: lambda k, v, layer: (k, v))
    }
    for bits in (3, 4):
        memory = ROUNDING.cost(bits, width) / width
        caches[f"uniform, {bits} bits"] = memory, lambda bits=bits: Quantiser(bits)
        caches[f"policy at {bits} bits"] = memory, lambda memory=memory: _policy(windows, memory)
    for name, (bits, made) in caches.items():
        error = cache_error(instrument, capture, windows, made())
        yield {
            "cache": name,
            "bits": bits,
            "error": sum(layer.mean for layer in error.layers) / len(error.layers),
            "kl": error.divergence,
            "right": capture.baseline + error.effect > 0,
        }


def _policy(windows: Any, memory: float) -> Policy:
    return allot(windows, memory, rounding=ROUNDING).best.policy


if __name__ == "__main__":
    main()
