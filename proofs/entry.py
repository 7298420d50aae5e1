"""What one entry of the catalogue is: a labelled statement with everything that supports it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from proofs.prover.statements import Statement


class Kind(StrEnum):
    """What sort of claim an entry makes."""

    EQUALITY = "equality"
    BOUND = "bound"
    EQUIVALENCE = "equivalence"
    EXPANSION = "expansion"
    DEFINITION = "definition"
    ARITHMETIC = "arithmetic"


ASSUMPTIONS: Mapping[str, str] = MappingProxyType(
    {
        "attended": "The attended set is finite and non-empty.",
        "finite-scores": "Every score is finite, so every weight is positive.",
        "fixed-query": "The query, the mask and the attended set do not change.",
        "fixed-content": "The rotated content and the frequencies do not depend on position.",
        "even-width": "The head width is even: the features are rotary planes.",
        "key-only": "The values do not change.",
        "support": "Scores change only on S and values only on T.",
        "proper-subset": "The deleted group leaves at least one key with positive mass.",
        "positive-weights": "Both distributions have positive entries.",
        "affine-scores": "The scores are linear in the augmented query input.",
        "frozen-coefficients": "Coefficients, features and values are held fixed under the derivative.",
        "fixed-bank": "The bank of keys and values and the query position are fixed.",
        "bias-free": "The projections have no bias.",
        "same-residual": "The head input is also the residual input.",
        "feasible": "The requested log ratios are attained by some query edit.",
        "disjoint-bands": "The two rotary bands share no plane.",
        "same-count": "Both banks have the same number of keys.",
        "linear-readout": "The downstream readout is linear.",
        "bound-holds": "Each exact score lies within its bound of the first-order score.",
        "two-bits": "The bit width is at least two and the vector is not zero.",
        "nonzero-total": "The total in the denominator is not zero.",
        "all-inputs": "The affine representation is required for every input.",
    }
)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A label, what it says in our words, what it assumes, and what proves and computes it."""

    label: str
    title: str
    text: str
    kind: Kind
    scope: str
    assumptions: tuple[str, ...] = ()
    statements: tuple[Statement, ...] = ()
    aliases: tuple[str, ...] = ()
    row: str = ""
    functions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = [name for name in self.assumptions if name not in ASSUMPTIONS]
        if unknown:
            raise ValueError(f"{self.label}: unknown assumptions {unknown}")

    @property
    def names(self) -> tuple[str, ...]:
        """Every name by which the entry can be found."""
        return (self.label, *self.aliases, *((self.row,) if self.row else ()))
