"""The catalogue as a page: every statement of the calculus, its mathematics made from what is proved.

What stands here is what is claimed and by what; whether it holds, `finite-calculus verify` says.
"""

import importlib
import inspect
from collections.abc import Iterator

from api import exports
from texts import code, raw, words

import finite_calculus
from proofs.catalogue import TOPICS
from proofs.edges import stands_on
from proofs.entry import ASSUMPTIONS, Clause, Entry
from proofs.mathematics import hypotheses, mathml

_INTRODUCTION = """\
# The catalogue of identities

Every statement of the calculus: what it says, what it assumes, the clauses that are proved and by what. The
mathematics is MathML made from the two sides that the prover proves. A subscript j stands for every key.
`finite-calculus verify` proves all of it again and says what was checked on this machine, and
`finite-calculus verify --why LABEL` shows one statement with its certificates.
"""


def catalogue_page() -> str:
    """The page as Markdown."""
    return "\n".join(_page())


def anchor(label: str) -> str:
    """The place of an entry on the page."""
    return "entry-" + label.replace(":", "-").lower()


def _page() -> Iterator[str]:
    yield _INTRODUCTION
    for topic in TOPICS:
        module = importlib.import_module(f"proofs.topics.{topic}")
        yield from (f"## {topic}", "", words(inspect.getdoc(module) or ""), "")
        for entry in module.ENTRIES:
            yield from _entry(entry)


def _entry(entry: Entry) -> Iterator[str]:
    yield from (f"({anchor(entry.label)})=", f"### {words(entry.title)}", "")
    names = ", ".join(map(code, entry.names))
    yield from (f"{names} · {entry.kind.value}", "", words(entry.text), "")
    for clause in entry.clauses:
        yield from _clause(clause, entry)
    facts = {
        "Scope": words(entry.scope),
        "Assumes": " ".join(words(ASSUMPTIONS[name]) for name in entry.assumptions),
        "Stands on": ", ".join(
            f"[{code(label)}](#{anchor(label)})" for label in stands_on(entry.label)
        ),
        "Computed by": ", ".join(map(_function, entry.functions)),
    }
    yield from (f"- {name}: {text}" for name, text in facts.items() if text)
    yield ""


def _clause(clause: Clause, entry: Entry) -> Iterator[str]:
    if clause.text != entry.text:
        yield from (words(clause.text), "")
    for statement in clause.statements:
        given = "".join(f'<span class="given">{each}</span>' for each in hypotheses(statement))
        given = given and f'<div class="givens">where {given}</div>'
        yield raw(f'<div class="formula">{mathml(statement)}{given}</div>')
    means = [
        *(["the prover and its checker"] if clause.statements else []),
        *([f"Coq: {', '.join(map(code, clause.coq))}"] if clause.coq else []),
        *([f"recomputed by {code(clause.computed)}"] if clause.computed else []),
    ]
    if means:
        yield from (f"Proof: {'; '.join(means)}.", "")


def _function(name: str) -> str:
    """FILE.NAME, or FILE.CLASS.NAME, with a link to the API where users can import it."""
    public = {export.name for export in exports(finite_calculus.__name__)}
    parts = name.split(".")[1:]
    known = bool(parts) and parts[0] in public
    return f"[{code(name)}](#finite_calculus.{'.'.join(parts)})" if known else code(name)
