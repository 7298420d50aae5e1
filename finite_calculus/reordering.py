"""Separating positional from contextual change under reordering: Appendix G (eq:phasecontent).

Four projected readouts cross original and reordered positions with original and reordered content.
Their differences split the total change into phase, context and interaction, and signed projections
say how much of the total each part carries.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._transforms import refuted


@dataclass(frozen=True, eq=False)
class PhaseContext:
    """total = phase + context + interaction (eq:phasecontent)."""

    phase: Float[Tensor, "*batch model"]
    context: Float[Tensor, "*batch model"]
    interaction: Float[Tensor, "*batch model"]
    total: Float[Tensor, "*batch model"]


def phase_context(
    original: Float[Tensor, "*batch model"],
    moved: Float[Tensor, "*batch model"],
    rewritten: Float[Tensor, "*batch model"],
    reordered: Float[Tensor, "*batch model"],
) -> PhaseContext:
    """Split the change between two observed readouts (eq:phasecontent).

    `original` is o⁰⁰, `moved` has the new positions only (o¹⁰), `rewritten` the new content only
    (o⁰¹), `reordered` both (o¹¹).
    """
    _checks.same_dtype(original=original, moved=moved, rewritten=rewritten, reordered=reordered)
    for name, part in {"moved": moved, "rewritten": rewritten, "reordered": reordered}.items():
        _checks.exact_axes(name, part, original.shape, "the shape of `original`")
    phase, context, total = moved - original, rewritten - original, reordered - original
    return PhaseContext(phase, context, (reordered - moved) - context, total)


def signed_projections(parts: PhaseContext) -> dict[str, Float[Tensor, ""]]:
    """γ_X = Σ⟨X, T⟩/Σ‖T‖² pooled over all readouts (Appendix G); the three sum to one."""
    scale = (parts.total * parts.total).sum()
    if refuted(scale > 0):
        raise ValueError(
            "`parts.total` must not vanish: signed projections divide by its squared norm; got 0. "
            "The two endpoints are equal, so there is no change to attribute."
        )
    named = {"phase": parts.phase, "context": parts.context, "interaction": parts.interaction}
    return {name: torch.sum(part * parts.total) / scale for name, part in named.items()}
