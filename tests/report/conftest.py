"""A page of real records and of a ledger whose texts try to break out of it."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from finite_calculus.cli import app

ROOT = Path(__file__).parents[2]
ARCHIVE = ROOT / "results" / "joint-kv" / "stories15m"
PREFLIGHT = ROOT / "results" / "preflight" / "tiny-qwen2.json"
# Wide enough to be scrolled, and a fraction tall enough to be cut.
WIDE = (
    "<math><mfrac><mi>a</mi><mi>b</mi></mfrac><mo>=</mo>"
    + "<msub><mi>p</mi><mi>j</mi></msub><mo>+</mo>" * 60
    + "<mn>1</mn></math>"
)
HOSTILE = "</script><img src=x onerror=alert(1)>\u2028\u202e{{ 7 * 7 }}"


def entry(label: str, **fields: object) -> dict[str, object]:
    """An entry of a ledger as `verify --json` writes it."""
    return {
        "label": label,
        "aliases": [],
        "kind": "equality",
        "title": f"title of {label}",
        "text": "y' − y",
        "assumptions": [],
        "proof": "proved",
        "clauses": [],
        "stands_on": [],
        "scope": "every N",
        "generated": {"cases": 2, "bits": 128},
        "float64": None,
        "float32": None,
        "native": {"status": "none", "checks": []},
        "failures": [],
        "green": True,
        **fields,
    }


@pytest.fixture(scope="session")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    clause = {
        "text": HOSTILE, "coq": ["Phi.phi1E"], "proof": ["shown", "a proof without a formula"],
        "status": "proved", "mathematics": [{"name": "shown", "mathml": WIDE}],
    }  # fmt: skip
    entries = [
        entry("main:first", clauses=[clause]),
        entry("main:second", stands_on=["main:first"]),
        entry("main:third", failures=["not proved"], green=False, title=HOSTILE),
        entry("main:fourth", stands_on=["main:third"], green=False),
    ]
    summary = {
        "entries": 4, "clauses": 1, "clauses_proved": 1, "clauses_coq_only": 0, "failed": 1,
        "clauses_recomputed": 0, "clauses_not_checked": 0, "clauses_unproved": 0, "coq_checked": 1,
        "coq_theorems": 1, "references_generated": 3, "references_required": 3,
    }  # fmt: skip
    path = tmp_path_factory.mktemp("ledger") / "ledger.json"
    path.write_text(json.dumps({"summary": summary, "entries": entries}))
    return path


@pytest.fixture(scope="session")
def page(tmp_path_factory: pytest.TempPathFactory, ledger: Path) -> Path:
    path = tmp_path_factory.mktemp("page") / "report.html"
    result = CliRunner().invoke(
        app, ["report", *map(str, (ledger, PREFLIGHT, ARCHIVE)), "--out", str(path)]
    )
    assert result.exit_code == 0, result.output
    return path
