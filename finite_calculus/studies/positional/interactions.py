"""The fast–middle interaction of a variant: four cells beside the closed form (eq:projectedinteraction).

Both bands are exact rotations of the captured keys in float64. Heads are projected and summed before a norm.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from finite_calculus.bands import band_interaction
from finite_calculus.joint import key_response
from finite_calculus.margin import norm, project
from finite_calculus.models import KeyShift
from finite_calculus.positional import key_shift_scores
from finite_calculus.studies.positional.budgets import plain_readout, readout_budget
from finite_calculus.studies.positional.predictors import shift_scores
from finite_calculus.studies.positional.rows import BandInteraction
from finite_calculus.studies.positional.variant import Part, Variant


def interaction_part(variant: Variant, layers: Sequence[int], shifts: Sequence[int]) -> Part:
    """Interactions at every layer and shift."""
    rows: list[BandInteraction] = []
    checks: dict[str, list[tuple[float, float]]] = {}
    for layer in layers:
        listed = _layer_rows(variant, layer, shifts)
        name = f"interaction, layer {layer}: closed form against cells"
        checks[name] = [(row.apart, row.budget) for row in listed]
        rows += listed
    return Part(rows, checks)


def _layer_rows(variant: Variant, number: int, shifts: Sequence[int]) -> list[BandInteraction]:
    layer, tokens = variant.capture.layer(number), variant.prompt.demonstrations
    fast, middle = (
        torch.stack(
            [
                shift_scores(layer, KeyShift(number, tokens, shift, band), key_shift_scores)
                for shift in shifts
            ]
        )
        for band in ("fast", "middle")
    )
    readout, projection = layer.readout(), layer.output_projection.double()
    closed = project(band_interaction(readout, fast, middle), projection)
    corners = {
        "both": fast + middle,
        "fast": fast,
        "middle": middle,
        "none": torch.zeros_like(fast),
    }
    cells = {name: plain_readout(readout, scores) for name, scores in corners.items()}
    four = project(cells["both"] - cells["fast"] - cells["middle"] + cells["none"], projection)
    budget = _sum([readout_budget(readout, s, layer.output.numel()) for s in corners.values()])
    figures = {
        "closed": norm(closed),
        "cells": norm(four),
        "joint": norm(project(key_response(readout, fast + middle), projection)),
        "apart": norm(closed - four),
        "budget": norm(project(budget, projection.abs())),
    }
    return [
        BandInteraction(
            *variant.place,
            variant=variant.number,
            layer=number,
            shift=shift,
            **{name: float(values[n]) for name, values in figures.items()},
        )
        for n, shift in enumerate(shifts)
    ]


def _sum(tensors: Sequence[Tensor]) -> Tensor:
    return torch.stack(list(tensors)).sum(0)
