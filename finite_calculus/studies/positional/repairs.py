"""Precision repair of a quantised prefix: which entries each method restores, and what that leaves.

Beside the paper's controls, which score once, stand two that it lacks: second order with re-scoring, and
exact scores that are evaluated once. With them the benefit of exact scores is told from that of re-scoring.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch

from finite_calculus.cache.restoring import quantised_pair
from finite_calculus.models import (
    Edit,
    LayerCapture,
    LocalComparison,
    Outcome,
    Quantise,
    Restore,
)
from finite_calculus.models.comparison import LocalCheck
from finite_calculus.restoration import Method, Restoration, restore_greedily
from finite_calculus.studies.positional.rows import Repair
from finite_calculus.studies.positional.variant import Part, Variant, violations

BITS = (2, 4)
ENTRIES = (1, 4)
Kept: TypeAlias = tuple[int, tuple[int, ...]]
# Whether scores are evaluated again after each restoration.
METHODS: tuple[tuple[Method, bool], ...] = (
    ("exact", True),
    ("exact", False),
    ("second-order", True),
    ("second-order", False),
    ("first-order", False),
    ("attention", False),
    ("value-norm", False),
    ("fisher", False),
    ("random", False),
)


@dataclass(frozen=True, eq=False)
class Choice:
    """What one method restored of one quantised prefix, in its order; none of it for `entries` 0."""

    bits: int
    method: str
    rescored: bool
    entries: int
    restored: tuple[int, ...]
    errors: tuple[float, ...]
    benefits: tuple[float, ...]

    @property
    def kept(self) -> Kept:
        """What decides the repaired cache: bits, and the entries that stand restored."""
        return self.bits, tuple(sorted(self.restored[: self.entries]))

    def edits(self, layer: LayerCapture) -> tuple[Edit, ...]:
        """Quantisation and restoration, to execute together."""
        quantised = Quantise(layer.layer, prefix(layer), self.bits)
        if not self.entries:
            return (quantised,)
        return quantised, Restore(layer.layer, self.kept[1])


def prefix(layer: LayerCapture) -> tuple[int, ...]:
    """All tokens before the query's own, whose key and value stay as they are."""
    return tuple(layer.tokens)[:-1]


def list_choices(
    layer: LayerCapture,
    seed: Sequence[int],
    *,
    methods: Sequence[tuple[Method, bool]] = METHODS,
) -> list[Choice]:
    """All methods, bits and numbers of entries, and each quantised prefix without restoration."""
    choices: list[Choice] = []
    for bits in BITS:
        for method, rescored in methods:
            restoration = _restore(layer, bits, method, rescored, seed)
            restored = tuple(layer.first + key for key in restoration.restored.tolist())
            errors = tuple(restoration.errors.tolist())
            benefits = tuple(restoration.scores.tolist())
            choices += [
                Choice(bits, method, rescored, entries, restored, errors, benefits)
                for entries in ENTRIES
            ]
        choices.append(Choice(bits, "none", False, 0, (), choices[-1].errors[:1], ()))
    return choices


def _restore(
    layer: LayerCapture, bits: int, method: Method, rescored: bool, seed: Sequence[int]
) -> Restoration:
    pair = quantised_pair(layer, bits)
    candidates = torch.arange(pair.scores.shape[-1]) < len(prefix(layer))
    generator = torch.Generator()
    generator.manual_seed(int(np.random.SeedSequence([*seed, bits]).generate_state(1)[0]))
    return restore_greedily(
        pair,
        layer.output_projection.double(),
        max(ENTRIES),
        method=method,
        rescore=rescored,
        candidates=candidates,
        generator=generator,
    )


def repair_part(
    variant: Variant,
    layer: LayerCapture,
    choices: Sequence[Choice],
    outcomes: Mapping[Kept, Outcome],
    comparisons: Sequence[LocalComparison],
) -> Part:
    """Rows and checks of executed repairs; `outcomes` by what was kept."""
    effects = [variant.sign * outcomes[choice.kept].effect for choice in choices]
    unrepaired = {c.bits: e for c, e in zip(choices, effects, strict=True) if not c.entries}
    rows = [
        Repair(
            *variant.place,
            layer=layer.layer,
            bits=choice.bits,
            method=choice.method,
            rescored=choice.rescored,
            entries=choice.entries,
            relative_error=relative_error(choice),
            corrupt_error=choice.errors[0],
            effect=effect,
            unrepaired=unrepaired[choice.bits],
        )
        for choice, effect in zip(choices, effects, strict=True)
        if choice.entries
    ]
    norms = [LocalCheck.of(comparison) for comparison in comparisons]
    exact = [c for c in choices if c.method == "exact" and c.rescored and c.entries == max(ENTRIES)]
    size = layer.output.numel()
    return Part(
        rows,
        {
            "repair: executed write": [(norm.error, norm.bound) for norm in norms],
            "repair: benefit against the fall of the squared error": [
                pair for choice in exact for pair in _benefit_pairs(choice, layer, size)
            ],
            "repair: numbers that are not finite": violations(rows),
        },
    )


def relative_error(choice: Choice) -> float:
    """‖write error‖ after the restorations over that before; 1 if quantising changed nothing."""
    return choice.errors[choice.entries] / choice.errors[0] if choice.errors[0] else 1.0


def _benefit_pairs(choice: Choice, layer: LayerCapture, size: int) -> list[tuple[float, float]]:
    """Each benefit beside ‖e‖² − ‖e'‖², with the rounding of two writes of that size.

    Errors are exact responses; what they carry is at most (terms)·u of the write's absolute terms.
    """
    unit = torch.finfo(torch.float64).eps / 2
    readout = layer.readout()
    terms = torch.einsum("hk,hkw,hwm->m", readout.probs, readout.values.abs(),
                         layer.output_projection.double().abs())  # fmt: skip
    reach = float(torch.linalg.vector_norm(terms)) + choice.errors[0]
    steps = 4 * float(readout.scores.abs().max()) + 3 * readout.keys + size + 32
    pairs = []
    for k, benefit in enumerate(choice.benefits):
        before, after = choice.errors[k], choice.errors[k + 1]
        gap = abs(benefit - (before - after) * (before + after))
        pairs.append((gap, 8 * steps * unit * reach * (before + after)))
    return pairs
