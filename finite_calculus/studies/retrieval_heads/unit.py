"""One prompt of the test: planes of many heads set to zero together, and those of one layer at a time.

Together they run natively over the whole prompt, one row of a batch for each condition and row 0 unedited.
At the lowest layer that a row edits, everything before it is unedited, so that the change of the last
query's readout there is known exactly; it is checked. One layer at a time goes the way of every other edit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from finite_calculus.harness import Policy, UnitResult, compare
from finite_calculus.models import (
    Capture,
    Instrument,
    LayerCapture,
    QueryEdit,
    compare_all,
    edited_bank,
    output_error,
    predict,
)
from finite_calculus.models.comparison import LocalCheck
from finite_calculus.models.session import AttentionCall, Session, active, by_module
from finite_calculus.models.support import Site
from finite_calculus.studies.retrieval_heads.masks import (
    BANDS,
    band_planes,
    coordinates,
    heads_by_layer,
)
from finite_calculus.studies.retrieval_heads.prompts import HeadPrompt
from finite_calculus.studies.retrieval_heads.rows import Recall, SingleLayer
from finite_calculus.studies.retrieval_heads.settings import HeadSettings

QUERIES = ("last", "all")


@dataclass(frozen=True)
class Condition:
    """One row of the batch: which heads, which planes, which queries."""

    heads: str
    band: str
    queries: str


def run_prompt(
    instrument: Instrument, settings: HeadSettings, prompt: HeadPrompt, policy: Policy
) -> UnitResult:
    """Both kinds of edits on one prompt; the captured margin is of the right candidate and the next one."""
    ids, count = prompt.ids, len(prompt.candidates)
    answer, versus = (prompt.candidates[(prompt.right + step) % count] for step in (0, 1))
    layers = sorted({layer for name in ("retrieval", "other") for layer, _ in policy[name]})
    capture = instrument.capture(ids, answer=answer, versus=versus, layers=layers)
    seed = (settings.seed, 4, prompt.index)
    recalls, apart = _together(instrument, capture, prompt, policy, seed)
    singles = list(_single_layers(instrument, capture, prompt, policy, seed, settings.batch))
    checks = [
        compare("together: readout of the lowest edited layer", apart),
        compare("one layer: executed write", [(r.local_error, r.local_bound) for r in singles]),
    ]
    return UnitResult({"recalls": recalls, "single_layers": singles}, checks)


def _together(
    instrument: Instrument,
    capture: Capture,
    prompt: HeadPrompt,
    policy: Policy,
    seed: Sequence[int],
) -> tuple[list[Recall], list[tuple[float, float]]]:
    """All heads of a kind at once, under every band and for the last or all queries."""
    conditions = [
        Condition(h, b, q) for h in ("retrieval", "other") for b in BANDS for q in QUERIES
    ]
    sites = instrument.support.sites
    zeros = {site.layer: _zeros(instrument, site.layer, conditions, policy, seed) for site in sites}
    calls: dict[int, tuple[AttentionCall, Tensor]] = {}

    def edit(site: Site, call: AttentionCall) -> AttentionCall:
        mask = zeros[site.layer]
        if not bool(mask.any()):
            return call
        query = call.query.masked_fill(mask[:, :, -1:], 0.0)
        query[:, :, -1] = query[:, :, -1].masked_fill(mask[:, :, 0], 0.0)
        return replace(call, query=query)

    def observe(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        if bool(zeros[site.layer].any()):
            calls[site.layer] = call, output[:, -1]
        return output

    rows = len(conditions) + 1
    with torch.no_grad(), active(Session(by_module(sites), edit, observe)):
        ids = capture.ids.unsqueeze(0).expand(rows, -1).to(_device(instrument))
        logits = instrument.model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[:, -1]
    margins = _margins(logits, prompt)
    recalls = [
        Recall(
            prompt.task,
            prompt.index,
            condition.heads,
            condition.band,
            condition.queries,
            planes=int(
                _planes(instrument, policy[condition.heads][0][0], condition.band, seed).sum()
            ),
            control=margins[0],
            margin=margins[row],
        )
        for row, condition in enumerate(conditions, start=1)
    ]
    apart = []
    for row, condition in enumerate(conditions, start=1):
        lowest = min(layer for layer, _ in policy[condition.heads])
        layer = capture.layer(lowest)
        apart.append(_readout_error(layer, *calls[lowest], row, zeros[lowest][row, :, 0]))
    return recalls, apart


def _margins(logits: Tensor, prompt: HeadPrompt) -> list[float]:
    """The right candidate's logit minus the largest of the others', row by row."""
    listed = logits[:, list(prompt.candidates)].double()
    others = [n for n in range(len(prompt.candidates)) if n != prompt.right]
    return (listed[:, prompt.right] - listed[:, others].amax(-1)).tolist()


def _readout_error(
    layer: LayerCapture, call: AttentionCall, output: Tensor, row: int, zeroed: Tensor
) -> tuple[float, float]:
    """How far the executed change of the last readout is from the exact one, and its float32 bound.

    The unedited query, key and value are those of row 0; a batch rounds equal rows alike.
    """
    own = replace(
        layer,
        query=call.query[0, :, -1].cpu(),
        keys=call.key[0].cpu().contiguous(),
        values=call.value[0].cpu().contiguous(),
    )
    edit = QueryEdit(layer.layer, (), torch.where(zeroed, -own.query, 0.0))
    outputs = output.reshape(output.shape[0], layer.heads, -1).double().cpu()
    error = outputs[row] - outputs[0] - predict(own, edit).response
    bound = output_error(own) + output_error(own, edited_bank(own, edit))
    return float(torch.linalg.vector_norm(error)), float(torch.linalg.vector_norm(bound))


def _zeros(
    instrument: Instrument,
    layer: int,
    conditions: Sequence[Condition],
    policy: Policy,
    seed: Sequence[int],
) -> Tensor:
    """What is set to zero at a layer, (rows, heads, 2, width): for the last query, and for all."""
    rotary = instrument.probed[layer].rotary
    heads = instrument.model.config.get_text_config(decoder=True).num_attention_heads
    if rotary is None:
        return torch.zeros(len(conditions) + 1, heads, 2, 1, dtype=torch.bool)
    mask = torch.zeros(len(conditions) + 1, heads, 2, rotary.head_width, dtype=torch.bool)
    for row, condition in enumerate(conditions, start=1):
        chosen = heads_by_layer(policy[condition.heads]).get(layer, [])
        if chosen:
            zeroed = coordinates(rotary, band_planes(rotary, condition.band, (*seed, layer)))
            mask[row, chosen, 0] = zeroed
            if condition.queries == "all":
                mask[row, chosen, 1] = zeroed
    return mask.to(_device(instrument))


def _planes(instrument: Instrument, layer: int, band: str, seed: Sequence[int]) -> Tensor:
    rotary = instrument.probed[layer].rotary
    return torch.zeros(0) if rotary is None else band_planes(rotary, band, (*seed, layer))


def _single_layers(
    instrument: Instrument,
    capture: Capture,
    prompt: HeadPrompt,
    policy: Policy,
    seed: Sequence[int],
    batch: int,
) -> Iterator[SingleLayer]:
    """The retrieval heads of each layer at the last query, predicted and executed on the shared path."""
    places: list[tuple[int, int, str]] = []
    edits: list[QueryEdit] = []
    for number, heads in heads_by_layer(policy["retrieval"]).items():
        layer = capture.layer(number)
        if layer.rotary is None:
            continue
        for band in BANDS:
            zeroed = coordinates(layer.rotary, band_planes(layer.rotary, band, (*seed, number)))
            delta = torch.zeros_like(layer.query)
            delta[heads] = torch.where(zeroed, -layer.query[heads], 0.0)
            places.append((number, len(heads), band))
            edits.append(QueryEdit(number, (), delta))
    outcomes = instrument.execute(capture, edits, batch=batch, path="shared").outcomes
    floor = instrument.floor(capture)
    listed: Any = zip(places, edits, outcomes, compare_all(edits, outcomes), strict=True)
    for (number, heads, band), edit, outcome, comparison in listed:
        local = LocalCheck.of(comparison)
        yield SingleLayer(
            prompt.task,
            prompt.index,
            layer=number,
            heads=heads,
            band=band,
            effect=outcome.effect,
            predicted=capture.predict(edit).effect,
            local_error=local.error,
            local_bound=local.bound,
            resolved=floor.resolves(outcome.effect),
        )


def _device(instrument: Instrument) -> torch.device:
    return next(instrument.model.parameters()).device
