"""The Python of the README and of the pages runs, each block alone, and their figures are of saved runs."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
HOW_TO = sorted((ROOT / "docs" / "how-to").glob("*.md"))
PAGES = {path.name: path for path in (*FILES, *HOW_TO)}
TEXTS = {name: path.read_text(encoding="utf-8") for name, path in PAGES.items()}
SAID = {name: " ".join(text.split()) for name, text in TEXTS.items()}
BLOCKS = [
    pytest.param(block, id=f"{name}-{number}")
    for name, text in TEXTS.items()
    if PAGES[name] in FILES  # those of the how-tos run in test_how_to.py
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", text, re.DOTALL))
]


def test_the_readme_is_short_and_has_two_examples() -> None:
    assert len(TEXTS["README.md"].splitlines()) <= 120
    assert TEXTS["README.md"].count("```python") == 2
    assert len(BLOCKS) == 11


@pytest.mark.parametrize("block", BLOCKS)
def test_a_python_block_runs_alone(block: str, capsys) -> None:
    exec(compile(block, "page", "exec"), {"__name__": "page"})
    assert capsys.readouterr().out


def test_the_eight_lines_say_what_the_text_says() -> None:
    names: dict = {}
    exec(compile(BLOCKS[0].values[0], "README.md", "exec"), names)
    parts = names["parts"]
    recomputed = names["fc"].freeze(
        names["scores"] + names["score_edit"], names["values"] + names["value_edit"]
    )
    gap = (recomputed.output - names["readout"].output - parts.total).abs().max()
    assert gap <= names["torch"].finfo(parts.total.dtype).eps * 4


@pytest.mark.parametrize("name", PAGES)
def test_every_file_that_a_page_names_exists(name: str) -> None:
    links = re.findall(r"\]\(([\w./-]+)(?:#[\w-]+)?\)", TEXTS[name])
    assert [link for link in links if not (PAGES[name].parent / link).exists()] == []


def test_the_readme_leads_to_every_page() -> None:
    for path in FILES[1:]:
        assert f"(docs/{path.name})" in TEXTS["README.md"]
    for path in HOW_TO:
        assert f"(how-to/{path.name})" in TEXTS["how-to.md"]


def test_the_tables_are_what_the_records_say() -> None:
    check = [sys.executable, "docs/make.py", "--check"]
    result = subprocess.run(check, cwd=ROOT, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr


def test_a_table_that_the_records_do_not_bear_out_is_noticed(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    import make

    ratio = re.search(r"\| plain forward pass \| ([\d.]+) \|", TEXTS["speed.md"])
    assert ratio is not None
    wrong = TEXTS["speed.md"].replace(ratio[0], "| plain forward pass | 9000 |")
    assert make.fill(TEXTS["speed.md"]) == (TEXTS["speed.md"], [])
    assert make.fill(wrong) == (TEXTS["speed.md"], ["speed"])


def test_the_certificates_of_a_real_search_are_those_of_the_saved_run() -> None:
    saved = json.loads((ROOT / "results" / "search" / "retrieval.json").read_text())
    assert saved["command"].startswith("finite-calculus score --model smollm2-135m-instruct ")
    signs = f"{saved['certified_signs']:,} of {saved['candidates']:,} signs"
    share = f"({100 * saved['certified_pairs'] / saved['pairs']:.1f} %)"
    pairs = f"{saved['certified_pairs']:,} of {saved['pairs']:,} pairs {share}"
    executions = f"{len(saved['executed'])} executions settled"
    assert all(words in SAID["search.md"] for words in (signs, pairs, executions))
    assert saved["stopped"] == "settled"


def test_the_figures_of_the_audit_are_those_of_its_records(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    from tables import audit_records

    audits, sweeps = audit_records()
    medians = [
        row["slack_quantiles"]["0.5"]
        for row in audits
        if row["dtype"] == "float64" and row["slack"]
    ]
    checks = {row["function"] for row in audits}
    lost = {
        dtype: max(
            row["stability"]["bits"]
            for row in audits
            if row.get("stability") and row["dtype"] == dtype
        )
        for dtype in ("float64", "float32")
    }
    for words in (
        f"the most that is lost is {lost['float64']:.1f} bits of the 26 allowed in float64",
        f"and {lost['float32']:.1f} of 11.5 in float32",
        f"{sum(row['cases'] for row in audits):,} cases of {len(checks)} checks",
        f"at most {max(medians):.0f} in float64",
        f"at most {max(row['ulps'] for row in sweeps):.4f} ulp",
    ):
        assert words in SAID["accuracy.md"]


def test_the_figures_of_other_libraries_are_those_of_the_saved_run() -> None:
    saved = {row["name"]: row for row in json.loads((ROOT / "bench" / "peers.json").read_text())}
    skipping, starting = saved["nnsight"], saved["transformer-lens-3"]
    said = SAID["speed.md"].partition("Beside other libraries")[2]
    for words in (
        f"nnsight {skipping['version']} runs an edit in 1/{skipping['best_ratio']:.2f} of",
        f"TransformerLens {starting['version']} from the edited layer in 1/{starting['best_ratio']:.2f};",
        f"patched by hand in 1/{skipping['cached_ratio']:.0f},",
    ):
        assert words in said
    # Nobody else is ahead of the two that are named.
    assert max(row["best_ratio"] for row in saved.values()) == skipping["best_ratio"]
