"""Presses of kvpress beside ours in its own environment: what is read from a cache that keeps as much.

    python -m bench.peer_runs.kvpress_methods FOLDER_OF_THE_MODEL IDS_AS_JSON

Prints JSON: the mean KL(everything kept ‖ pressed) of the tokens after the context, text by text.
"""

import json
import sys
import time
from importlib.metadata import version

import kvpress
import torch
from transformers import AutoModelForCausalLM, DynamicCache

from finite_calculus.cache.choosing import Search
from finite_calculus.cache.methods import AttentionMass, WriteDistortion
from finite_calculus.cache.press import press

AFTER, QUERIES = 32, 8


def presses(keep: float) -> dict[str, object]:
    """Ours and theirs, each keeping the same share."""
    ratio = 1 - keep
    same = {"keep": keep, "queries": QUERIES}
    return {
        "ours: write distortion": press(WriteDistortion(search=Search(exchanges=0), **same)),
        "ours: attention mass": press(AttentionMass(**same)),
        "SnapKVPress": kvpress.SnapKVPress(compression_ratio=ratio, window_size=QUERIES),
        "StreamingLLMPress": kvpress.StreamingLLMPress(compression_ratio=ratio),
        "KnormPress": kvpress.KnormPress(compression_ratio=ratio),
        "RandomPress": kvpress.RandomPress(compression_ratio=ratio, seed=0),
    }


@torch.no_grad()
def main() -> None:
    """Read each text with each press."""
    torch.set_num_threads(1)
    folder, texts = sys.argv[1], json.loads(sys.argv[2])
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    rows = []
    for number, listed in enumerate(texts):
        ids = torch.tensor([listed])
        ordinary, _ = _read(model, ids, None)
        for keep in (0.5, 0.3):
            for name, made in presses(keep).items():
                started = time.process_time()
                logits, kept = _read(model, ids, made)
                before, after = ordinary.double().log_softmax(-1), logits.double().log_softmax(-1)
                kl = float((before.exp() * (before - after)).sum(-1).mean())
                row = {"text": number, "keep": keep, "press": name, "kept": kept, "kl": kl}
                rows.append(row | {"seconds": time.process_time() - started})
    names = ("kvpress", "transformers", "torch")
    print(json.dumps({"made_with": {name: version(name) for name in names}, "rows": rows}))


def _read(model, ids, made) -> tuple[torch.Tensor, int]:
    cache, context = DynamicCache(), ids.shape[1] - AFTER
    if made is None:
        model.model(ids[:, :context], past_key_values=cache)
    else:
        with made(model):
            model.model(ids[:, :context], past_key_values=cache)
    positions = torch.arange(context, ids.shape[1])[None]
    kept = cache.layers[0].keys.shape[2]
    return model(ids[:, context:], past_key_values=cache, position_ids=positions).logits[0], kept


if __name__ == "__main__":
    main()
