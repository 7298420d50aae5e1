"""The record of a run of all formula mutants: one JSON file with a digest, and a row for each statement.

A row counts for the statement and the code that it is of: prover, checker, exact model and mutation. It holds
how many mutants came out as what, and the text of those that nothing decides.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import sympy as sp

from finite_calculus.provenance.digests import digest
from finite_calculus.provenance.sources import source_digests
from proofs.prover.links import Link
from proofs.prover.mutants import hypothesis_mutants, mutants
from proofs.prover.statements import Statement

RECORD = Path(__file__).parents[2] / "results" / "formula-mutants.json"

Rows = dict[str, dict[str, Any]]


def read(path: Path = RECORD) -> Rows:
    """The rows by the name of the statement, none without a file; raises if they are damaged."""
    if not path.exists():
        return {}
    try:
        saved = json.loads(path.read_text(encoding="utf-8"))
        if saved["sha256"] == digest(saved["statements"]):
            return saved["statements"]
    except (ValueError, KeyError, TypeError):
        pass
    raise ValueError(
        f"`{path}` must hold rows as `python -m proofs.prover.mutation --record` writes them; got other "
        "data. Restore it, or remove it and run that again."
    )


def write(rows: Rows, path: Path = RECORD) -> None:
    """Write all rows whole or not at all."""
    statements = {name: rows[name] for name in sorted(rows)}
    draft = path.with_suffix(".partial")
    saved = {"sha256": digest(statements), "statements": statements}
    draft.write_text(json.dumps(saved, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    draft.replace(path)


def stale(rows: Rows, statements: Iterable[Statement]) -> list[str]:
    """Statements without a row of their own text and this code."""
    return [s.name for s in statements if rows.get(s.name, {}).get("of") != identity(s)]


def row(statement: Statement, texts: Mapping[str, list[str]]) -> dict[str, Any]:
    """The row of a statement from the texts of its mutants by verdict."""
    return {
        "of": identity(statement),
        "mutants": sum(map(len, texts.values())),
        **{verdict: len(found) for verdict, found in texts.items()},
        "texts": {v: texts[v] for v in ("survivor", "undecided") if texts.get(v)},
    }


def identity(statement: Statement) -> str:
    """Of a statement with its mutants, its method, lemmas and model, and of the code that judges them."""
    changed = [f"{m} from {of}" for m, of in hypothesis_mutants(statement)]
    lemmas = [str(x.lemma) if isinstance(x, Link) else str(x.pairs) for x in statement.links]
    model = [(str(symbol), _definition(definition)) for symbol, definition in statement.model]
    texts = [str(statement), *map(str, mutants(statement)), *changed, str(statement.nonzero)]
    return digest([_code(), texts, str(statement.facts), repr(statement.method), lemmas, model])[
        :16
    ]


def _definition(definition: Any) -> str:
    return str(definition) if isinstance(definition, sp.Basic) else definition.__qualname__


@functools.cache
def _code() -> str:
    roots = ("proofs.prover.mutants", "proofs.prover.verdicts")
    return digest(source_digests(dict.fromkeys(roots)))
