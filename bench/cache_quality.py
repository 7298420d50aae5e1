"""What a model says from a reduced or a quantised cache: every method with the same number of entries.

    python -m bench.cache_quality [--model NAME] [--texts 6] --out results/cache/MODEL/quality.json

A text's context fills the cache, which a method reduces once, or which is quantised and partly restored; the
tokens that follow are read from it, teacher-forced. A run that was stopped goes on with what is missing in
its file, half a text at a time. Seconds are processor time: `plan` of the choice and the last 16 tokens of
the context together, `token` of each token read from what is left.
"""

import argparse
import copy
import json
import sys
import time
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from bench.cache_texts import AFTER, CONTEXT, Text, texts
from finite_calculus.cache import (
    AttentionMass,
    KeyNorm,
    Method,
    ObservationWindow,
    Protected,
    QueryWindow,
    Random,
    Rounding,
    Search,
    SinkAndRecent,
    WriteDistortion,
    WriteGradient,
    entry_benefits,
    entry_changes,
    reading,
    reducing,
    watch,
)
from finite_calculus.checkpoints import load
from finite_calculus.provenance.commits import code_commit

KEEPS = (0.5, 0.3, 0.1)
BITS = (2, 3, 4)
RESTORED = (0.0, 0.01, 0.05)
# The last tokens of a context, whose pass a method watches, and the queries that it looks at.
LAST, QUERIES = 16, 8
# What chooses the entries to restore, ours first.
RULES = ("exact benefit", "exact change", "attention mass", "value norm", "random")
Row = dict[str, Any]


def methods(keep: float) -> dict[str, Method]:
    """Ours, the common rules, and ours with a share of both ends reserved, as a control."""
    ends, search = Protected(ends=keep / 4), Search(parts=8)
    same = {"keep": keep, "queries": QUERIES}
    return {
        "write distortion": WriteDistortion(search=search, **same),
        "write distortion, ends kept": WriteDistortion(search=search, protect=ends, **same),
        "attention mass": AttentionMass(**same),
        "attention mass, ends kept": AttentionMass(protect=ends, **same),
        "observation window": ObservationWindow(**same),
        "sink and recent": SinkAndRecent(**same),
        "key norm": KeyNorm(**same),
        "write gradient": WriteGradient(**same),
        "random": Random(**same),
    }


def main() -> None:
    """Run what is missing, and save after every text."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="smollm2-135m-instruct")
    parser.add_argument("--texts", type=int, default=6, help="of each kind")
    parser.add_argument("--only", choices=PARTS, help="one half of every text")
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    model, tokenizer = load(options.model)
    rows: list[Row] = []
    if options.out.exists():
        rows = json.loads(options.out.read_text("utf-8"))["rows"]
    done = {(row["ids_sha256"], "bits" in row) for row in rows}
    for text in texts(tokenizer, options.texts):
        named = text.manifest() | {"code": code_commit()}
        for part, run in PARTS.items():
            key = named["ids_sha256"], part == "quantised"
            if key in done or options.only not in (None, part):
                continue
            started = time.process_time()
            rows += [named | row for row in run(model, text)]
            _save(options.out, rows)
            seconds = time.process_time() - started
            print(f"{part}: {text.kind} {text.name}: {seconds:.0f} s", flush=True)


def _save(out: Path, rows: list[Row]) -> None:
    content = {
        "command": "python -m bench.cache_quality " + " ".join(sys.argv[1:]),
        "made_with": {name: version(name) for name in ("torch", "transformers")},
        "context": CONTEXT,
        "after": AFTER,
        "queries": QUERIES,
        "rows": rows,
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(_lines(content)) + "\n")


def _lines(content: dict[str, Any]) -> Iterator[str]:
    """JSON with a line for each row."""
    head = json.dumps({name: x for name, x in content.items() if name != "rows"})
    yield head[:-1] + ', "rows": ['
    *most, last = [json.dumps(row) for row in content["rows"]]
    yield from (line + "," for line in most)
    yield last + "]}"


@torch.no_grad()
def _reduced(model: Any, text: Text) -> Iterator[Row]:
    """Rows of the methods of eviction, everything kept first."""
    first = _filled(model, text.ids[: text.context - LAST])
    cache, plan = _last(model, text, first)
    ordinary, token = _after(model, text, cache)
    yield {"method": "everything", "keep": 1.0, "plan": plan, "token": token} | _scored(
        text, ordinary, ordinary
    )
    for keep in KEEPS:
        for name, method in methods(keep).items():
            with reducing(model, method) as reduction:
                cache, plan = _last(model, text, first)
                logits, token = _after(model, text, cache)
            (kept,) = {stored for stored, _ in reduction.kept.values()}
            yield {
                "method": name,
                "keep": keep,
                "kept": kept,
                "bytes": reduction.after,
                "bytes_before": reduction.before,
                "plan": plan,
                "token": token,
            } | _scored(text, ordinary, logits)


@torch.no_grad()
def _quantised(model: Any, text: Text) -> Iterator[Row]:
    """Rows of the ways to choose the restored entries; a group of each layer restores equally many."""
    windows = watch(model, text.ids[: text.context], queries=QUERIES)
    ordinary, _ = _after(model, text, _cache(windows))
    rounding = Rounding(axis="group32")
    for bits in BITS:
        rounded = [
            reading(w, rounding.read(w.keys, bits), rounding.read(w.values, bits)) for w in windows
        ]
        for name in RULES:
            states, put_back = rounded, 0
            for share in RESTORED:
                count = round(share * text.context)
                if not share and name != "exact benefit":
                    continue
                started = time.process_time()
                pairs = zip(windows, states, strict=True)
                states = [_restored(w, now, name, count - put_back) for w, now in pairs]
                plan, put_back = time.process_time() - started, count
                logits, token = _after(model, text, _cache(states))
                yield {
                    "method": name if share else "nothing restored",
                    "bits": bits,
                    "restored": share,
                    "kept": count,
                    "plan": plan,
                    "token": token,
                } | _scored(text, ordinary, logits)


def _restored(original: QueryWindow, now: QueryWindow, name: str, count: int) -> QueryWindow:
    """Put back the `count` entries of each group that a rule scores highest; ours asks again each time."""
    if not count:
        return now
    back = (now.keys == original.keys).all(-1) & (now.values == original.values).all(-1)
    if name in ("exact benefit", "exact change"):
        exact = entry_benefits if name == "exact benefit" else entry_changes
        scores = exact(original, now, original)
    elif name == "random":
        scores = Random().scores(original)
    else:
        scores = AttentionMass().scores(now)
        if name == "value norm":
            scores = scores * now.values.double().norm(dim=-1)
    best = scores.masked_fill(back, -torch.inf).topk(count).indices
    chosen = back.scatter(1, best, True).unsqueeze(-1)
    return reading(
        original,
        torch.where(chosen, original.keys, now.keys),
        torch.where(chosen, original.values, now.values),
    )


def _filled(model: Any, ids: Tensor) -> DynamicCache:
    cache = DynamicCache(config=model.config)
    model.base_model(input_ids=ids[None], past_key_values=cache, use_cache=True)
    return cache


def _cache(windows: Any) -> DynamicCache:
    cache = DynamicCache()
    for number, window in enumerate(windows):
        cache.update(window.keys[None].clone(), window.values[None].clone(), number)
    return cache


def _last(model: Any, text: Text, first: DynamicCache) -> tuple[DynamicCache, float]:
    """The end of the context on a copy of its beginning, and the seconds."""
    cache, started = copy.deepcopy(first), time.process_time()
    ids = text.ids[None, text.context - LAST : text.context]
    model.base_model(input_ids=ids, past_key_values=cache, use_cache=True)
    return cache, time.process_time() - started


def _after(model: Any, text: Text, cache: DynamicCache) -> tuple[Tensor, float]:
    """Logits that foretell the scored tokens, and seconds a token."""
    ids, started = text.ids[None, text.context : -1], time.process_time()
    logits = model(input_ids=ids, past_key_values=cache, use_cache=True).logits[0]
    return logits[-text.scored :], (time.process_time() - started) / ids.shape[1]


def _scored(text: Text, ordinary: Tensor, logits: Tensor) -> Row:
    """KL(everything kept ‖ now) a token, log loss, and whether all scored tokens are the likeliest."""
    before, after = ordinary.double().log_softmax(-1), logits.double().log_softmax(-1)
    wanted = text.ids[-text.scored :]
    right = after.argmax(-1) == wanted
    if text.rivals:
        right = after[:, list(text.rivals)].argmax(-1) == 0
    return {
        "kl": float((before.exp() * (before - after)).sum(-1).mean()),
        "loss": float(-after.gather(1, wanted[:, None]).mean()),
        "right": bool(right.all()),
    }


PARTS = {"reduced": _reduced, "quantised": _quantised}

if __name__ == "__main__":
    main()
