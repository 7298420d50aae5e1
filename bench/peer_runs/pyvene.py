"""pyvene: vanilla interventions on the outputs of the key and value projections, the whole model."""

from functools import partial
from typing import Any

import torch
from pyvene import IntervenableConfig, IntervenableModel, RepresentationConfig, VanillaIntervention
from torch import Tensor

from bench.peer_runs.shared import BATCH, LAYER, PeerEdit, Plain, Way, margin, measure


def ways(plain: Plain) -> dict[str, Way]:
    sites = [
        RepresentationConfig(LAYER, component, "pos", intervention_type=VanillaIntervention)
        for component in ("key_output", "value_output")
    ]
    model: Any = IntervenableModel(IntervenableConfig(sites), model=plain.model)
    run = partial(intervene, model, plain.ids)
    return {"alone": Way(run, 1), "batched": Way(run, BATCH)}


def intervene(model: Any, ids: Tensor, edits: list[PeerEdit]) -> Tensor:
    """Shorter spans repeat their last token, since every row of a batch must have as many."""
    most = max(len(edit.tokens) for edit in edits)
    places = [[min(i, len(edit.tokens) - 1) for i in range(most)] for edit in edits]
    pairs = list(zip(edits, places, strict=True))
    where = [[edit.tokens[i] for i in place] for edit, place in pairs]
    _, output = model(
        {"input_ids": ids.expand(len(edits), -1)},
        source_representations=[
            torch.stack([edit.keys[place] for edit, place in pairs]),
            torch.stack([edit.values[place] for edit, place in pairs]),
        ],
        unit_locations={"sources->base": (None, [where, where])},
        use_cache=False,
    )
    return margin(output.logits)


if __name__ == "__main__":
    measure("pyvene", ways)
