"""The benchmarks compare like with like, and say what they found; no time is asserted."""

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

from bench import execution, peers
from bench.attention import arithmetic
from bench.peer_runs import shared
from bench.rows import BenchRow, side_by_side, table, write
from finite_calculus.studies.runtime.attention import dense, draw, fused, sparse

ROOT = Path(__file__).parents[1]
STRENGTHS = (0.1, 0.5, 1.0)
KEYS = ["name", "ours_ms", "other_ms", "other", "ratio", "target"]


@pytest.mark.parametrize(("tokens", "spans", "members"), [(112, 8, 7), (300, 20, 8)])
def test_sparse_dense_and_fused_responses_are_the_same_numbers(tokens, spans, members):
    inputs = draw(tokens, spans, members, STRENGTHS, torch.float64)
    responses, expected = sparse(inputs), dense(inputs)
    alone = arithmetic(inputs)
    assert responses.shape == alone.shape == (len(STRENGTHS), spans)
    # Sums over heads, tokens and 128 features of numbers of order one, in float64.
    slack = 12 * (tokens + 128) * torch.finfo(torch.float64).eps
    assert float((responses - expected).abs().max()) <= slack
    assert float((fused(inputs) - expected).abs().max()) <= slack
    assert float((alone - expected).abs().max()) <= slack
    assert float(expected.abs().min()) > 1e3 * slack


def test_portions_of_spans_change_nothing():
    inputs = draw(200, 13, 8, STRENGTHS, torch.float64)
    gap = (sparse(inputs, portion=5) - sparse(inputs)).abs().max()
    assert float(gap) <= 12 * 328 * torch.finfo(torch.float64).eps


def test_peers_do_the_work_that_is_executed_here():
    names = ("TOKENS", "LAYER", "ANSWER", "VERSUS")
    assert [getattr(shared, n) for n in names] == [getattr(execution, n) for n in names]


def test_a_peer_that_cannot_be_run_is_missing_and_has_no_figures(tmp_path):
    broken = peers.Peer("broken", None, "no_such_script")
    result = peers.timed(broken, tmp_path, tmp_path, 8)
    assert "its script failed: " in (result.missing or "")
    assert "no_such_script" in (result.missing or "")
    assert result.best_ratio is None
    console = Console(file=io.StringIO(), width=100)
    console.print(peers.table([result]))
    assert "missing" in console.file.getvalue()


def test_the_two_sides_take_turns_and_medians_are_reported():
    calls: list[str] = []
    seconds = iter(range(1000))

    def clock() -> float:
        return float(next(seconds))

    ours, other = side_by_side(
        lambda: calls.append("ours"),
        lambda: calls.append("other"),
        rounds=6,
        at_least=1,
        clock=clock,
    )
    # The clock advances a second at every reading: one call is one second.
    assert (ours, other) == (1000.0, 1000.0)
    rounds = [calls[i : i + 2] for i in range(0, 12, 2)]
    assert all(sorted(pair) == ["other", "ours"] for pair in rounds)
    assert len({tuple(pair) for pair in rounds}) == 2


def test_a_median_ignores_one_slow_round():
    times = {"ours": [1.0, 50.0, 2.0], "other": [3.0, 3.0, 900.0]}
    now = [0.0]

    def spend(which: str):
        return lambda: now.__setitem__(0, now[0] + times[which].pop(0))

    medians = side_by_side(
        spend("ours"), spend("other"), rounds=3, at_least=0, clock=lambda: now[0]
    )
    assert medians == (2000.0, 3000.0)


def test_what_misses_its_target_is_marked():
    rows = [
        BenchRow("met", 1.0, 3.0, "dense", 3.0, 3.0),
        BenchRow("missed", 1.0, 2.9, "dense", 2.9, 3.0),
        BenchRow("not a number", 1.0, 1.0, "dense", float("nan"), 3.0),
        BenchRow("free", 1.0, 0.1, "dense", 0.1, None),
    ]
    assert [row.misses for row in rows] == [False, True, True, False]
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table(rows))
    lines = console.export_text().splitlines()
    assert [
        name
        for name in ("met", "missed", "not a number", "free")
        for line in lines
        if f" {name} " in line and "misses" in line
    ] == ["missed", "not a number"]


def test_rows_are_written_as_a_list(tmp_path: Path):
    write([BenchRow("work", 1.5, 3.0, "dense", 2.0, None)], tmp_path / "rows.json")
    (row,) = json.loads((tmp_path / "rows.json").read_text())
    assert list(row) == KEYS
    assert row == {
        "name": "work",
        "ours_ms": 1.5,
        "other_ms": 3.0,
        "other": "dense",
        "ratio": 2.0,
        "target": None,
    }


def test_a_quick_run_measures_the_rows_it_is_asked_for(tmp_path: Path):
    rows = tmp_path / "rows.json"
    command = [sys.executable, "-m", "pytest", "-o", "addopts=", "-q", "--benchmark-quiet"]
    command += ["-p", "no:cacheprovider", "--quick", f"--rows={rows}"]
    # As from a terminal: a worker of xdist would disable the benchmarks.
    settings = {name: value for name, value in os.environ.items() if "XDIST" not in name}
    process = subprocess.run(
        [*command, "bench/test_sparse.py", "-k", "112 and dense"],
        cwd=ROOT,
        env=settings,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stdout + process.stderr
    records = json.loads(rows.read_text())
    assert [row["name"] for row in records] == [
        "sparse response, N=112, C=8, strengths=1",
        "sparse response, N=112, C=8, strengths=3",
        "sparse arithmetic alone, N=112, C=8, strengths=1",
        "sparse arithmetic alone, N=112, C=8, strengths=3",
        "dense response, N=112, C=8",
    ]
    assert all(list(row) == KEYS and row["ours_ms"] > 0 for row in records)
    assert all(row["ratio"] == pytest.approx(row["other_ms"] / row["ours_ms"]) for row in records)
    assert "ours beside others" in process.stdout


def test_simulated_workers_lose_and_double_nothing(tmp_path):
    words = ["--units", "60", "--missing", "40", "--workers", "24", "--place", str(tmp_path)]
    words += ["--save", str(tmp_path / "record.json")]
    command = [sys.executable, "-m", "bench.coordinator", *words]
    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    (run,) = json.loads((tmp_path / "record.json").read_text())["runs"]
    assert (run["lost"], run["doubled"]) == (0, 0)
    assert run["counts"]["committed"] == 40
    assert run["counts"]["nodes lost"] > 0
