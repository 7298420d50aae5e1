"""Finding retrieval heads: attention to the record that holds the answer, beyond that to the others."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from finite_calculus.harness import Records
from finite_calculus.studies.retrieval_heads.rows import HeadScore
from finite_calculus.studies.retrieval_heads.settings import HeadSettings

if TYPE_CHECKING:
    from finite_calculus.models import Instrument
    from finite_calculus.studies.retrieval_heads.prompts import HeadPrompt


def score_heads(instrument: "Instrument", prompt: "HeadPrompt") -> list[HeadScore]:
    """Every head of every layer on one prompt."""
    import torch

    target, (answer, versus) = prompt.target, prompt.candidates[:2]
    capture = instrument.capture(prompt.ids, answer=answer, versus=versus)
    rows = []
    for layer in capture.layers:
        probs = layer.readout().probs
        mass = torch.stack(
            [probs[:, layer.column(a) : layer.column(b - 1) + 1].sum(-1) for a, b in prompt.spans]
        )
        others = (mass.sum(0) - mass[target]) / (len(mass) - 1)
        first = mass.argmax(0) == target
        rows += [
            HeadScore(
                prompt.task, prompt.index, layer.layer, head, float(mine), float(rest), bool(hit)
            )
            for head, (mine, rest, hit) in enumerate(zip(mass[target], others, first, strict=True))
        ]
    return rows


def choose_heads(settings: HeadSettings, records: Records) -> dict[str, Any]:
    """The heads with the largest mean contrast, tasks weighted equally, and as many others at random."""
    rows = records.rows(HeadScore)
    scores = contrasts(rows)
    ranked = sorted(scores, key=lambda head: -scores[head])
    chosen, rest = ranked[: settings.heads], ranked[settings.heads :]
    if len(rest) < len(chosen):
        raise ValueError(
            f"`heads` must leave as many others to compare with; got {settings.heads} of {len(ranked)}. "
            f"Ask for fewer."
        )
    rng = np.random.default_rng(np.random.SeedSequence([settings.seed, 3]))
    drawn = rng.choice(len(rest), len(chosen), replace=False)
    return {
        "retrieval": sorted([list(head) for head in chosen]),
        "other": sorted([list(rest[n]) for n in drawn]),
    }


def contrasts(rows: Sequence[HeadScore]) -> dict[tuple[int, int], float]:
    """Mean of target − other by head; every task has the same number of prompts."""
    sums: dict[tuple[int, int], list[float]] = {}
    for row in rows:
        sums.setdefault((row.layer, row.head), []).append(row.target - row.other)
    return {head: float(np.mean(values)) for head, values in sums.items()}
