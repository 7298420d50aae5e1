"""What one entry of the catalogue is: a labelled statement, its clauses, and what proves each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
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


class Status(StrEnum):
    """What became of a clause."""

    PROVED = "proved"
    COQ_ONLY = "proved in Coq only"
    RECOMPUTED = "recomputed"
    NOT_CHECKED = "not checked"
    UNPROVED = "not proved"


@dataclass(frozen=True)
class Clause:
    """One claim of an entry, and all that proves it: symbolic statements, Coq theorems, or a program.

    The symbolic statements together say what the text says, not a part of it. Where only Coq says it, there
    are no statements. `computed` names the program that recomputes printed figures.
    """

    text: str
    statements: tuple[Statement, ...] = ()
    coq: tuple[str, ...] = ()
    computed: str = ""

    def status(
        self, is_proved: Callable[[Statement], bool], is_checked: Callable[[str], bool | None]
    ) -> Status:
        """From the verdict on each statement and on each theorem, None where Coq was not run."""
        theorems = [is_checked(theorem) for theorem in self.coq]
        if False in theorems or not all(map(is_proved, self.statements)):
            return Status.UNPROVED
        if self.statements:
            return Status.PROVED
        if theorems:
            return Status.NOT_CHECKED if None in theorems else Status.COQ_ONLY
        return Status.RECOMPUTED if self.computed else Status.UNPROVED


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A label, what it says in our words, what it assumes, and what proves and computes it."""

    label: str
    title: str
    text: str
    kind: Kind
    scope: str
    assumptions: tuple[str, ...] = ()
    clauses: tuple[Clause, ...] = ()
    aliases: tuple[str, ...] = ()
    row: str = ""
    functions: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        unknown = [name for name in self.assumptions if name not in ASSUMPTIONS]
        if unknown:
            raise ValueError(f"{self.label}: unknown assumptions {unknown}")
        # A clause without a text of its own says what the entry says.
        clauses = tuple(replace(c, text=c.text or self.text) for c in self.clauses)
        object.__setattr__(self, "clauses", clauses)

    @property
    def statements(self) -> tuple[Statement, ...]:
        """The symbolic statements of all clauses, each once."""
        return tuple(dict.fromkeys(s for clause in self.clauses for s in clause.statements))

    @property
    def theorems(self) -> tuple[str, ...]:
        """The Coq theorems of all clauses, each once."""
        return tuple(dict.fromkeys(t for clause in self.clauses for t in clause.coq))

    @property
    def names(self) -> tuple[str, ...]:
        """Every name by which the entry can be found."""
        return (self.label, *self.aliases, *((self.row,) if self.row else ()))
