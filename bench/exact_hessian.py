"""How far the second derivative itself goes: ½ ΔoᵀHΔo along every large candidate's own write.

    python -m bench.exact_hessian ARCHIVE --data DIR [--prompts 16] [--out results/search/exact-hessian.json]

Reads an archive of the study `search`, in which every candidate is executed, makes its prompts again
and takes one Hessian–vector product for each candidate of the upper two thirds of the layers whose executed
effect is at least 0.1. No subspace is left out: what remains is beyond the second order. Run once for each
archive; rows of other models in the file are kept.
"""

import argparse
import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import Tensor

from finite_calculus.checkpoints import load
from finite_calculus.models import Capture, Instrument, LayerCapture, attach
from finite_calculus.models.kinds import TOKEN_KINDS
from finite_calculus.models.writes import kind_writes, token_pulls
from finite_calculus.studies.search.prompts import TASKS, SearchPrompt, search_prompts
from finite_calculus.studies.search.settings import SearchSettings
from finite_calculus.studies.search.truth import LARGE

# Products of one pass.
ROWS = 64
Columns = Mapping[str, np.ndarray]


def main() -> None:
    """Take the products, print and save the errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("archive", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--prompts", type=int, default=16)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    name = options.archive.name
    model, tokenizer = load(name)
    settings = SearchSettings(model=name)
    prompts, manifest = search_prompts(
        TASKS, settings.prompts, tokenizer, 4096, seed=settings.seed, data=options.data
    )
    plan = json.loads((options.archive / "plan-main.json").read_text())["manifest"]
    if plan["prompts"] != manifest["prompts"]:
        raise ValueError(f"{options.archive} must hold the prompts of this code; it holds others.")
    table = pq.read_table(options.archive / "candidates.parquet")
    every = {column: table[column].to_numpy() for column in table.column_names}
    errors: dict[int, list[np.ndarray]] = defaultdict(list)
    with attach(model, tokenizer=tokenizer) as instrument:
        for prompt in prompts[: options.prompts]:
            own = (every["task"] == prompt.task) & (every["prompt"] == prompt.index)
            large = own & (np.abs(every["executed"]) >= LARGE)
            chosen = {column: values[large] for column, values in every.items()}
            for layer, rows in _errors(instrument, prompt, chosen):
                errors[layer].append(rows)
    rows = [
        _row(name, layer, np.concatenate(parts, axis=1)) for layer, parts in sorted(errors.items())
    ]
    for row in rows:
        print(row)
    if options.out is not None:
        _save(options, name, rows)


def _errors(
    instrument: Instrument, prompt: SearchPrompt, chosen: Columns
) -> Iterator[tuple[int, np.ndarray]]:
    """Layer by layer |error| of first order, of directions and of the whole H, a row for each candidate."""
    instrument.forget()
    ids = torch.tensor(prompt.ids)
    capture = instrument.capture(ids, answer=prompt.answer, versus=prompt.versus)
    for layer in capture.layers[-(-len(capture.layers) // 3) :]:
        here = chosen["layer"] == layer.layer
        if not here.any():
            continue
        own = {name: values[here] for name, values in chosen.items()}
        writes = _writes(layer, own)
        first = (writes @ layer.gradient_write.double()).numpy()
        executed = own["executed"].astype(float)
        second = first + _terms(instrument, capture, layer.layer, writes).numpy()
        directions = own["second"].astype(float)
        yield layer.layer, np.abs(np.stack([first, directions, second]) - executed)


def _writes(layer: LayerCapture, own: Columns) -> Tensor:
    columns = torch.from_numpy(own["token"].astype(int)) - layer.first
    kinds = torch.from_numpy(own["kind"].astype(int))
    places, inverse = columns.unique(return_inverse=True)
    pieces = [kind_writes(prepared, TOKEN_KINDS) for prepared in token_pulls(layer, places)]
    return torch.cat(pieces)[inverse, kinds].double()


def _terms(instrument: Instrument, capture: Capture, number: int, writes: Tensor) -> Tensor:
    parts = [instrument.second_terms(capture, {number: part}) for part in writes.split(ROWS)]
    return torch.cat([part[number] for part in parts])


def _row(model: str, layer: int, errors: np.ndarray) -> dict[str, Any]:
    first, directions, whole = errors.mean(1).tolist()
    return {
        "model": model,
        "layer": layer,
        "candidates": errors.shape[1],
        "mae_first": first,
        "mae_directions": directions,
        "mae_hessian": whole,
    }


def _save(options: argparse.Namespace, model: str, rows: list[dict[str, Any]]) -> None:
    out = options.out
    content: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    made = f"python -m bench.exact_hessian results/search/{model} --data DIR --prompts {options.prompts}"
    content["commands"] = content.get("commands", {}) | {model: made}
    content["made_with"] = {name: version(name) for name in ("torch", "transformers")}
    old = [row for row in content.get("rows", []) if row["model"] != model]
    content["rows"] = old + rows
    out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
