"""One set timed: each part on its own, from a forgotten prefix.

Process time is taken, which the load of other processes hardly changes.
"""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from finite_calculus.harness import Check, compare
from finite_calculus.models import Instrument, KeyShift, compare_all
from finite_calculus.models.comparison import LocalCheck
from finite_calculus.studies.positional_cost.rows import Cost
from finite_calculus.tasks.set_tokens import SetTokens

BANDS = ("fast", "middle", "slow", None)


def time_set(
    instrument: Instrument,
    tokens: SetTokens,
    layers: Sequence[int],
    shifts: Sequence[int],
    batch: int,
) -> tuple[list[Cost], Check]:
    """The costs of every variant of a set, and the check of what was timed: executed writes."""
    _ = instrument.probed  # once for a model, and no part of a prompt's cost
    rows, norms = [], []
    for number in tokens.text.variants:
        cost, local = _time_variant(instrument, tokens, number, layers, shifts, batch)
        rows.append(cost)
        norms += [(norm.error, norm.bound) for norm in local]
    return rows, compare("shift: executed write", norms)


def _time_variant(
    instrument: Instrument,
    tokens: SetTokens,
    number: int,
    layers: Sequence[int],
    shifts: Sequence[int],
    batch: int,
) -> tuple[Cost, list[LocalCheck]]:
    seconds: dict[str, float] = {}
    ids = torch.tensor(tokens.variants[number].ids)
    instrument.forget()
    with _timed(seconds, "prefix"):
        instrument.prompt(ids)
    with _timed(seconds, "gradient"):
        answer, versus = tokens.labels
        capture = instrument.capture(ids, answer=answer, versus=versus, layers=layers)
    places = tokens.variants[number].demonstrations
    edits = [KeyShift(i, places, shift, band) for i in layers for shift in shifts for band in BANDS]
    with _timed(seconds, "predict"):
        for edit in edits:
            capture.predict(edit)
    with _timed(seconds, "execute"):
        outcomes = instrument.execute(capture, edits, batch=batch, path="shared").outcomes
    with _timed(seconds, "check"):
        norms = [LocalCheck.of(each) for each in compare_all(edits, outcomes)]
    with _timed(seconds, "plain"), torch.no_grad():
        device = next(instrument.model.parameters()).device
        instrument.model(input_ids=ids.to(device).unsqueeze(0), use_cache=False, logits_to_keep=1)
    text = tokens.text
    return Cost(text.task, text.index, number, len(ids), len(edits), **seconds), norms


@contextmanager
def _timed(seconds: dict[str, float], name: str) -> Iterator[None]:
    start = time.process_time()
    yield
    seconds[name] = time.process_time() - start
