"""The folder of an audit's records: whole or refused, one writer at a time, and stale when code changes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from finite_calculus.cli import app
from proofs.numeric import audit, checks, exhaustive, record_files, staleness
from proofs.numeric.record_files import AUDITS, MANIFEST, SWEEPS, WORST, AuditRecords, RecordsError

RECORD = {
    "function": "phi1",
    "dtype": "float64",
    "cases": 3,
    "worst_over_bound": 0.1 + 0.2,
    "inputs": {"each": {"x": {"dtype": "float64", "data": [[5e-324, -0.0]]}}, "shared": {}},
}
SAMPLED = {**RECORD, "dtype": "float32", "stability": {"bits": 1.5, "inputs": None}}
SWEEP = {"kernel": "phi2", "inputs": 7, "worst": [[0.5, 1.25]]}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    audits = {(row["function"], row["dtype"]): row for row in (RECORD, SAMPLED)}
    record_files.write(tmp_path / "records", AuditRecords(audits, {"phi2": SWEEP}))
    return tmp_path / "records"


def stale_command(*arguments: str):
    return CliRunner().invoke(app, ["audit", "--stale", *arguments])


def test_what_is_written_is_read_and_inputs_have_a_table_of_their_own(folder: Path) -> None:
    records = record_files.read(folder)
    assert records.audits == {("phi1", "float64"): RECORD, ("phi1", "float32"): SAMPLED}
    assert records.sweeps == {"phi2": SWEEP}
    assert {path.name for path in folder.iterdir()} == {AUDITS, WORST, SWEEPS, MANIFEST}
    assert "inputs" not in (folder / AUDITS).read_text()


def test_a_folder_that_is_not_there_has_no_records(tmp_path: Path) -> None:
    assert record_files.read(tmp_path / "nowhere") == AuditRecords()


@pytest.mark.parametrize("name", [AUDITS, WORST, SWEEPS])
def test_a_damaged_table_is_refused(folder: Path, name: str) -> None:
    path = folder / name
    path.write_text(path.read_text().replace("phi", "psi", 1))
    with pytest.raises(RecordsError, match=f"{name} has another digest"):
        record_files.read(folder)
    path.unlink()
    with pytest.raises(RecordsError, match=f"{name} has another digest"):
        record_files.read(folder)


@pytest.mark.parametrize("text", ["", "[1, 2]", "{}"])
def test_a_damaged_manifest_is_refused(folder: Path, text: str) -> None:
    (folder / MANIFEST).write_text(text)
    with pytest.raises(RecordsError, match="must hold records"):
        record_files.read(folder)
    (folder / MANIFEST).unlink()
    with pytest.raises(RecordsError, match=f"without {MANIFEST}"):
        record_files.read(folder)


@pytest.mark.parametrize("renames", range(5))
def test_a_writer_that_is_stopped_leaves_the_old_records_or_the_new(
    folder: Path, monkeypatch, renames: int
) -> None:
    old, changed = record_files.read(folder), record_files.read(folder)
    del changed.audits["phi1", "float32"]
    changed.sweeps = {}
    left, rename = [None] * renames, Path.replace

    def stop(path: Path, target: Path) -> Path:
        if not left:
            raise KeyboardInterrupt
        left.pop()
        return rename(path, target)

    monkeypatch.setattr(Path, "replace", stop)
    if renames < 4:
        with pytest.raises(KeyboardInterrupt):
            record_files.write(folder, changed)
    else:
        record_files.write(folder, changed)
    assert record_files.read(folder) == (changed if renames else old)


def test_a_second_writer_is_refused(folder: Path) -> None:
    program = (
        "import sys, pathlib; from proofs.numeric import record_files\n"
        "with record_files.writing(pathlib.Path(sys.argv[1])): pass"
    )
    command = [sys.executable, "-c", program, str(folder)]
    with record_files.writing(folder):
        second = subprocess.run(command, capture_output=True, text=True, check=False)
    assert second.returncode == 1
    assert "must have one writer at a time" in second.stderr
    assert subprocess.run(command, check=False).returncode == 0


@pytest.fixture
def complete(tmp_path: Path, monkeypatch) -> Path:
    """Records of everything, where everything is one check and one kernel."""
    monkeypatch.setattr(exhaustive, "_PATTERNS", 2 * exhaustive._SLICE)
    monkeypatch.setattr(exhaustive, "_PIECE", exhaustive._SLICE)
    for registry in (checks.CHECKS, exhaustive.KERNELS):
        for name in registry.keys() - {"phi1"}:
            monkeypatch.delitem(registry, name)
    list(audit.audit(["phi1"], ["float64", "float32"], cases=20, seed=3, jobs=1, out=tmp_path))
    exhaustive.sweep("phi1", jobs=1, out=tmp_path)
    return tmp_path


def test_records_of_the_code_at_hand_are_not_stale(complete: Path) -> None:
    result = stale_command("--out", str(complete))
    assert (result.exit_code, result.output) == (0, f"0 stale records in {complete}\n")


def test_a_stale_record_is_named_with_the_command_that_makes_it_again(
    complete: Path, monkeypatch
) -> None:
    monkeypatch.setattr(staleness, "sources", lambda *_: "other")
    report = complete / "stale.json"
    result = stale_command("--out", str(complete), "--json", str(report))
    assert result.exit_code == 1
    assert result.output.splitlines()[-1] == f"2 stale records in {complete}"
    command = f"finite-calculus audit --cases 20 --function phi1 --dtype float64 --seed 3 --out {complete}"
    assert command in result.output
    rows = json.loads(report.read_text())["stale"]
    assert [row["record"] for row in rows] == ["phi1 float64", "phi1 float32"]
    assert rows[0] == {
        "record": "phi1 float64",
        "reason": "its code has changed",
        "command": command,
    }


def test_only_the_sample_or_the_sweep_may_be_stale(complete: Path, monkeypatch) -> None:
    sound = audit.sources
    with monkeypatch.context() as patch:
        patch.setattr(staleness, "sources", lambda name, *sample: sample or sound(name))
        reasons = [row.reason for row in staleness.stale(complete)]
    assert reasons == ["the code of its sample has changed"] * 2
    records = record_files.read(complete)
    records.sweeps["phi1"]["sources"] = "other"
    record_files.write(complete, records)
    (sweep,) = staleness.stale(complete)
    assert (sweep.record, sweep.reason) == ("phi1, every float32", "its code has changed")
    assert sweep.command.endswith(f"audit --exhaustive --function phi1 --out {complete}")


def test_what_is_missing_and_what_is_left_over_is_stale_too(complete: Path) -> None:
    records = record_files.read(complete)
    record = records.audits.pop(("phi1", "float32"))
    records.audits["psi", "float32"] = {**record, "function": "psi"}
    records.sweeps["psi"] = {**records.sweeps.pop("phi1"), "kernel": "psi"}
    record_files.write(complete, records)
    rows = {row.record: row.reason.partition(";")[0] for row in staleness.stale(complete)}
    assert rows == {
        "phi1 float32": "there is no record",
        "phi1, every float32": "there is no record",
        "psi float32": "nothing has this name now",
        "psi, every float32": "nothing has this name now",
    }
    list(audit.audit(["phi1"], ["float64", "float32"], cases=20, seed=3, jobs=1, out=complete))
    exhaustive.sweep("phi1", jobs=1, out=complete)
    assert staleness.stale(complete) == []


def test_the_commands_refuse_damage_and_json_without_stale(folder: Path) -> None:
    (folder / SWEEPS).write_text("{}\n")
    for arguments in (
        ["--stale"],
        ["--replay", "phi1"],
        ["--cases", "1", "--function", "phi1"],
        ["--exhaustive", "--function", "phi1"],
    ):
        refusal = CliRunner().invoke(app, ["audit", *arguments, "--out", str(folder)])
        assert refusal.exit_code == 2
        assert "another digest" in " ".join(refusal.output.replace("│", " ").split())
    lonely = CliRunner().invoke(app, ["audit", "--json", "list.json"])
    assert lonely.exit_code == 2
    assert "--json needs --stale" in lonely.output
