"""The README's Python runs as printed, and its figures are those of saved runs."""

import json
import re
from pathlib import Path

from proofs.numeric import record_files

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_the_readme_examples_run_as_printed_and_say_what_the_text_says(capsys) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 4
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.count("tensor(") == 5
    assert printed.count("KeyShift(") == 1
    parts = names["parts"]
    recomputed = names["fc"].freeze(
        names["scores"] + names["score_edit"], names["values"] + names["value_edit"]
    )
    gap = (recomputed.output - names["readout"].output - parts.total).abs().max()
    assert gap <= names["torch"].finfo(parts.total.dtype).eps * 4


def test_every_file_the_readme_names_exists() -> None:
    linked = re.findall(r"\]\(([\w./]+)\)", README)
    assert linked
    assert not [name for name in linked if not (ROOT / name).exists()]


def test_the_benchmark_table_is_that_of_the_saved_run() -> None:
    saved = {
        (row["name"], row["other"]): row
        for row in json.loads((ROOT / "bench" / "latest.json").read_text())
    }
    section = README.partition("## How fast")[2].partition("\n## ")[0]
    printed = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([\d.e+]+) \| ([^|]*?) ?\|$", section, re.M)
    assert len(printed) == sum(line.startswith("| ") for line in section.splitlines()) - 1
    for name, other, ratio, target in printed:
        row = saved[name, other]
        assert ratio == f"{row['ratio']:.3g}"
        wanted = "" if row["target"] is None else f"{row['target']:.3g}"
        missed = row["target"] is not None and row["ratio"] < row["target"]
        assert target == wanted + ", missed" * missed
    # Every row that has a target is printed, missed or not.
    assert {key for key, row in saved.items() if row["target"]} <= {(n, o) for n, o, *_ in printed}


def test_the_certificates_of_a_real_search_are_those_of_the_saved_run() -> None:
    saved = json.loads((ROOT / "results" / "search" / "retrieval.json").read_text())
    assert saved["command"].startswith("finite-calculus score --model smollm2-135m-instruct ")
    signs = f"{saved['certified_signs']:,} of {saved['candidates']:,} signs"
    share = f"({100 * saved['certified_pairs'] / saved['pairs']:.1f} %)"
    pairs = f"{saved['certified_pairs']:,} of {saved['pairs']:,} pairs {share}"
    executions = f"{len(saved['executed'])} executions settled"
    said = " ".join(README.split())
    assert all(words in said for words in (signs, pairs, executions))
    assert saved["stopped"] == "settled"


def test_the_figures_of_the_audit_are_those_of_its_records() -> None:
    kept = record_files.read(ROOT / "results" / "audit")
    records = {f"{name}-{dtype}": record for (name, dtype), record in kept.audits.items()}
    sweeps = kept.sweeps.values()
    medians = [
        found["slack_quantiles"]["0.5"]
        for found in records.values()
        if found["dtype"] == "float64" and found["slack"]
    ]
    checks = {found["function"] for found in records.values()}
    said = " ".join(README.partition("## How accurate")[2].partition("\n## ")[0].split())
    lost = {
        dtype: max(
            found["stability"]["bits"]
            for found in records.values()
            if "stability" in found and found["dtype"] == dtype
        )
        for dtype in ("float64", "float32")
    }
    for words in (
        f"the most that is lost is {lost['float64']:.1f} bits of the 26 allowed in float64",
        f"and {lost['float32']:.1f} of 11.5 in float32",
        f"{sum(found['cases'] for found in records.values()):,} cases of {len(checks)} checks",
        f"at most {max(medians):.0f} in float64",
        f"at most {max(found['ulps'] for found in sweeps):.4f} ulp",
    ):
        assert words in said
    search = json.loads((ROOT / "results" / "search" / "retrieval.json").read_text())
    rows = {
        "score, float64": records["certify-float64"]["slack_quantiles"],
        "score, float32": records["certify-float32"]["slack_quantiles"],
        "with a rotary remainder, float64": records["Certificate.jacobian-float64"][
            "slack_quantiles"
        ],
        "with a rotary remainder, float32": records["Certificate.jacobian-float32"][
            "slack_quantiles"
        ],
        "SmolLM2-135M, 115 tokens": search["tightness"],
    }
    for name, quantiles in rows.items():
        assert f"| {name} | " + " | ".join(f"{q:.3g}" for q in quantiles.values()) + " |" in said


def test_the_figures_of_other_libraries_are_those_of_the_saved_run() -> None:
    saved = {row["name"]: row for row in json.loads((ROOT / "bench" / "peers.json").read_text())}
    skipping, starting = saved["nnsight"], saved["transformer-lens-3"]
    said = " ".join(README.partition("Beside other libraries")[2].split())
    for words in (
        f"nnsight {skipping['version']} runs an edit in 1/{skipping['best_ratio']:.2f} of",
        f"TransformerLens {starting['version']} from the edited layer in 1/{starting['best_ratio']:.2f};",
        f"patched by hand in 1/{skipping['cached_ratio']:.0f},",
    ):
        assert words in said
    # Nobody else is ahead of the two that are named.
    assert max(row["best_ratio"] for row in saved.values()) == skipping["best_ratio"]
