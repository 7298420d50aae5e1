"""One prompt of the search study: every candidate predicted in every way, and executed.

Times are those of the processor, which the load of other processes hardly changes.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from finite_calculus.harness import Check, UnitResult, compare
from finite_calculus.models import Capture, Instrument, compare_all
from finite_calculus.models.comparison import LocalCheck
from finite_calculus.models.curvature import take_curvature
from finite_calculus.search import ScoreTable, calibrate, prepare_search, score
from finite_calculus.search.downstream import noise_floor, required
from finite_calculus.search.trust import execute_shared
from finite_calculus.studies.search.baselines import first_order, place_scores
from finite_calculus.studies.search.prompts import SearchPrompt
from finite_calculus.studies.search.rows import Candidate, Cost, Execution, Place
from finite_calculus.studies.search.settings import SearchSettings
from finite_calculus.studies.search.slopes import integrated_slopes, relevance_slopes

# Executed writes of so many candidates a layer are held to their bound.
CHECKED = 8


def run_prompt(
    instrument: Instrument, settings: SearchSettings, prompt: SearchPrompt
) -> UnitResult:
    """Predict and execute all candidates of one prompt."""
    _ = instrument.probed  # once for a model, and no part of a prompt's cost
    seconds: dict[str, float] = {}
    ids = torch.tensor(prompt.ids)
    margin = {"answer": prompt.answer, "versus": prompt.versus}
    instrument.forget()
    with _timed(seconds, "capture"):
        plain = instrument.capture(ids, **margin)  # pyright: ignore[reportArgumentType]
    with _timed(seconds, "score"):
        prepared = prepare_search(plain)
        exact = prepared.score()
    prepared_prompt = instrument.prompt(ids)
    with _timed(seconds, "curvature"):
        bend = take_curvature(prepared_prompt, plain.margin, plain.layers, settings.directions)
    capture = replace(plain, curvature=bend)
    with _timed(seconds, "second"):
        table = score(capture)
    seconds["second"] = max(0.0, seconds["second"] - seconds["score"])
    with _timed(seconds, "calibrate"):
        table = calibrate(instrument, table, batch=settings.batch)
    with _timed(seconds, "first"):
        first = first_order(prepared)
    with _timed(seconds, "places"):
        places = [place_scores(layer) for layer in plain.layers]
    other = {}
    for name, slopes in (("relp", relevance_slopes), ("integrated", integrated_slopes)):
        with _timed(seconds, name):
            other[name] = score(_along(plain, slopes(prepared_prompt, plain))).effect
    with _timed(seconds, "plain"), torch.no_grad():
        instrument.model(input_ids=ids.unsqueeze(0), use_cache=False, logits_to_keep=1)
    executed, executions = _execute_all(instrument, prompt, table, settings.batch)
    predictions = {
        "first": first,
        "exact": exact.effect,
        "second": required(table).second,
        "corrected": table.calibrated.corrected,
        "band": table.calibrated.band,
        **other,
    }
    known = int((~table.calibrated.executed.isnan()).sum())
    cost = Cost(
        task=prompt.task,
        prompt=prompt.index,
        tokens=len(prompt.ids),
        candidates=len(table),
        known=known,
        floor=noise_floor(plain),
        **seconds,
    )
    return UnitResult(
        rows={
            "candidates": _candidates(prompt, table, executed, predictions),
            "places": _places(prompt, plain, places),
            "executions": executions,
            "costs": [cost],
        },
        checks=_checks(instrument, table, settings),
    )


def _along(capture: Capture, slopes: Sequence[Tensor]) -> Capture:
    """The capture with other vectors in place of its gradients."""
    layers = [
        replace(layer, gradient_write=slope.reshape(-1))
        for layer, slope in zip(capture.layers, slopes, strict=True)
    ]
    return replace(capture, layers=tuple(layers))


def _execute_all(
    instrument: Instrument, prompt: SearchPrompt, table: ScoreTable, batch: int
) -> tuple[Tensor, list[Execution]]:
    effects, rows = torch.empty_like(table.effect, dtype=torch.float64), []
    for layer in table.capture.layers:
        own = (table.layer == layer.layer).nonzero().squeeze(-1)
        seconds: dict[str, float] = {}
        with _timed(seconds, "layer"):
            effects[own] = execute_shared(instrument, table, own, batch=batch, quiet=True)[own]
        place = (prompt.task, prompt.index, layer.layer)
        rows.append(Execution(*place, len(own), seconds["layer"]))
    return effects, rows


def _candidates(
    prompt: SearchPrompt, table: ScoreTable, executed: Tensor, predictions: dict[str, Any]
) -> list[Candidate]:
    """Rows by layer, then kind, then token, as a column of numbers that change slowly."""
    kinds = torch.repeat_interleave(
        torch.arange(len(table.parts)), torch.tensor([len(part.effect) for part in table.parts])
    )
    tokens = torch.cat(
        [
            part.tokens[:, 0].repeat(len(part.layers))
            for part in table.parts
            if part.tokens is not None
        ]
    )
    order = np.lexsort((tokens.numpy(), kinds.numpy(), table.layer.numpy()))
    columns: dict[str, Any] = {
        "layer": table.layer.numpy()[order].tolist(),
        "token": tokens.numpy()[order].tolist(),
        "kind": kinds.numpy()[order].tolist(),
        "executed": executed.numpy()[order].tolist(),
        "trusted": table.calibrated.trusted.numpy()[order].tolist(),
        "known": (~table.calibrated.executed.isnan()).numpy()[order].tolist(),
    }
    for name, values in predictions.items():
        columns[name] = values.numpy()[order].astype(np.float16).tolist()
    return [
        Candidate(prompt.task, prompt.index, **dict(zip(columns, row, strict=True)))
        for row in zip(*columns.values(), strict=True)
    ]


def _places(prompt: SearchPrompt, capture: Capture, scores: Sequence[Tensor]) -> list[Place]:
    return [
        Place(prompt.task, prompt.index, layer.layer, layer.first + column, *numbers)
        for layer, each in zip(capture.layers, scores, strict=True)
        for column, numbers in enumerate(each.T.tolist())
    ]


def _checks(instrument: Instrument, table: ScoreTable, settings: SearchSettings) -> list[Check]:
    """Executed writes of some candidates of every layer against the exact ones; gradients that agree."""
    generator = torch.Generator().manual_seed(settings.seed)
    pairs = []
    for layer in table.capture.layers:
        own = (table.layer == layer.layer).nonzero().squeeze(-1)
        rows = own[torch.randperm(len(own), generator=generator)[:CHECKED]]
        edits = [table.edit(int(row)) for row in rows]
        outcomes = instrument.execute(
            table.capture, edits, batch=settings.batch, path="shared"
        ).outcomes
        local = (LocalCheck.of(each) for each in compare_all(edits, outcomes))
        pairs += [(each.error, each.bound) for each in local]
    return [compare("candidate: executed write", pairs)]


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.process_time()
    yield
    seconds[name] = time.process_time() - start
