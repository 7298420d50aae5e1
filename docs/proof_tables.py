"""The tables about proofs, from their saved records."""

import json
from collections.abc import Callable

from archives import ROOT

# What became of a formula mutant: what the record calls it, and in words.
BECAME = {
    "survivor": "proved, and false in an exact model: the prover would be unsound",
    "refuted": "not proved, and false in an exact model",
    "unproved": "not proved, though no model refutes it, or its conclusion with a hypothesis changed",
    "true": "proved, and true in the model: another way to say it",
    "more general": "proved from another hypothesis: the statement is more general than it says",
    "undecided": "not proved, and the model cannot evaluate it",
}


def formula_mutants() -> list[str]:
    """What became of every formula mutant, and of how many statements."""
    record = ROOT / "results" / "formula-mutants.json"
    rows = json.loads(record.read_text(encoding="utf-8"))["statements"].values()
    lines = [f"| {len(rows)} statements, one thing changed | mutants |", "|---|---:|"]
    for verdict, words in BECAME.items():
        lines.append(f"| {words} | {sum(row.get(verdict, 0) for row in rows):,} |")
    return [*lines, f"| all | {sum(row['mutants'] for row in rows):,} |"]


TABLES: dict[str, Callable[[], list[str]]] = {"formula-mutants": formula_mutants}
