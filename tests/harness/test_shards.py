"""Shards: whole or not at all, never overwritten, damage and foreign files wrong by name."""

import errno
import json
import os
from pathlib import Path

import pytest

from finite_calculus.harness import StoreError, directory, shards
from finite_calculus.harness.shards import commit, discard_part, parts_of, problems
from finite_calculus.provenance.files import write_file

FILES = {"records.parquet": b"rows", "captures.safetensors": b"tensors"}


@pytest.fixture
def shard(tmp_path: Path) -> Path:
    target = tmp_path / "units" / "unit-000"
    commit(target, FILES, fingerprint="f" * 64)
    return target


def test_a_committed_shard_is_sound_and_leaves_no_temporary_file(shard: Path) -> None:
    assert problems(shard, "f" * 64) == []
    assert [path.name for path in shard.parent.iterdir()] == ["unit-000"]
    seal = json.loads((shard / "seal.json").read_text())
    assert set(seal["sha256"]) == set(FILES)
    assert seal["fingerprint"] == "f" * 64


def test_a_second_commit_is_compared_and_not_written(shard: Path) -> None:
    before = {path.name: path.read_bytes() for path in shard.iterdir()}
    assert not commit(shard, FILES, fingerprint="f" * 64)
    other = {**FILES, "records.parquet": b"other"}
    with pytest.raises(StoreError, match=r"committed before with other bytes in records\.parquet"):
        commit(shard, other, fingerprint="f" * 64)
    # Timings are others each time: the first ones stay.
    assert not commit(shard, other, fingerprint="f" * 64, repeatable=False)
    assert {path.name: path.read_bytes() for path in shard.iterdir()} == before
    assert [path.name for path in shard.parent.iterdir()] == ["unit-000"]
    (shard / "records.parquet").write_bytes(b"Rows")
    with pytest.raises(StoreError, match="was committed before and is not sound"):
        commit(shard, FILES, fingerprint="f" * 64)


@pytest.mark.parametrize("call", [1, 2, 3])
def test_a_full_disk_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    calls = []

    def full(path: Path, blob: bytes) -> None:
        calls.append(path)
        if len(calls) == call:
            path.write_bytes(blob[:1])
            raise OSError(errno.ENOSPC, "No space left on device", str(path))
        write_file(path, blob)

    monkeypatch.setattr(shards, "write_file", full)
    with pytest.raises(OSError, match="No space left on device"):
        commit(tmp_path / "unit-000", FILES, fingerprint="f" * 64)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setattr(shards, "write_file", write_file)
    assert commit(tmp_path / "unit-000", FILES, fingerprint="f" * 64)


def test_a_link_in_the_place_of_a_shard_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "unit-000").symlink_to(tmp_path / "outside")
    with pytest.raises(StoreError, match="not sound"):
        commit(tmp_path / "unit-000", FILES, fingerprint="f" * 64)
    assert list((tmp_path / "outside").iterdir()) == []


@pytest.mark.parametrize("call", [1, 2, 3])
def test_dying_at_any_write_leaves_nothing_under_the_final_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: int
) -> None:
    calls = []

    def dying(handle: int) -> None:
        calls.append(handle)
        if len(calls) == call:
            raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", dying)
    with pytest.raises(KeyboardInterrupt):
        commit(tmp_path / "unit-000", FILES, fingerprint="f" * 64)
    assert not (tmp_path / "unit-000").exists()
    (part,) = parts_of(tmp_path / "unit-000")
    discard_part(part)
    assert list(tmp_path.iterdir()) == []


def test_every_file_is_flushed_before_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    flush, rename = os.fsync, os.rename
    monkeypatch.setattr(os, "fsync", lambda handle: (events.append("flush"), flush(handle)))
    monkeypatch.setattr(os, "rename", lambda a, b: (events.append("rename"), rename(a, b)))
    commit(tmp_path / "unit-000", FILES, fingerprint="f" * 64)
    # Two files, the seal and the directory; then the rename; then the directory above.
    assert events == ["flush"] * 4 + ["rename", "flush"]


def test_damage_is_named_file_by_file(shard: Path) -> None:
    (shard / "records.parquet").write_bytes(b"Rows")
    (shard / "captures.safetensors").unlink()
    (shard / "notes.txt").write_text("mine")
    wrong = problems(shard, "f" * 64)
    assert len(wrong) == 3
    assert "captures.safetensors: missing" in wrong[0]
    assert "records.parquet: damaged; its sha256" in wrong[1]
    assert "notes.txt: foreign" in wrong[2]


def test_a_shard_of_another_run_or_without_a_seal_is_foreign(shard: Path) -> None:
    assert "foreign" in problems(shard, "e" * 64)[0]
    (shard / "seal.json").write_text("{")
    assert "no readable seal.json" in problems(shard, "f" * 64)[0]


def test_a_renamed_shard_is_foreign(shard: Path) -> None:
    other = shard.rename(shard.with_name("unit-001"))
    assert "its seal is of unit unit-000" in problems(other, "f" * 64)[0]


def test_leftovers_are_removed_only_if_a_commit_could_have_written_them(tmp_path: Path) -> None:
    part = tmp_path / "unit-000.part"
    part.mkdir()
    (part / "records.parquet").write_bytes(b"half")
    (part / "thesis.tex").write_bytes(b"dear")
    with pytest.raises(StoreError, match=r"thesis\.tex is foreign"):
        discard_part(part)
    assert (part / "records.parquet").exists()
    (part / "thesis.tex").unlink()
    (part / "more.json").mkdir()
    (part / "more.json" / "thesis.tex").write_bytes(b"dear")
    with pytest.raises(StoreError, match=r"more\.json is foreign"):
        discard_part(part)
    (part / "more.json" / "thesis.tex").unlink()
    (part / "more.json").rmdir()
    link = tmp_path / "unit-001.part"
    link.symlink_to(part)
    with pytest.raises(StoreError, match="it is a file or a link"):
        discard_part(link)
    discard_part(part)
    assert not part.exists()


def test_a_joiner_verifies_no_more_units_than_it_is_told_and_forgets_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = tuple(f"unit-{n}" for n in range(6))
    record = directory.RunRecord(study="s", fingerprint="f" * 64, identity={}, started="")
    plan = directory.StagePlan(stage="main", units=units, manifest={})
    record = record.model_copy(update={"identity": {"plan": plan.sha256}})
    for unit in units[:5]:
        commit(tmp_path / "units" / unit, FILES, fingerprint="f" * 64)
        (tmp_path / "units" / unit / "records.parquet").write_bytes(b"Rows")
    monkeypatch.setattr(directory, "_strange", lambda *_: [])
    for most in (0, 2, 5, None):
        survey = directory.survey(tmp_path, record, plan, most)
        assert len(survey.problems) == (5 if most is None else most)
        assert len(survey.done) == 5 - len(survey.problems)
        assert survey.missing == ("unit-5",)


def test_a_commit_that_ends_while_somebody_looks_is_not_foreign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever joins a busy run lists an unfinished commit, which is renamed before it is looked at."""
    part = tmp_path / "run" / "units" / "unit-0.0123456789abcdef.part"
    part.mkdir(parents=True)
    record = directory.RunRecord(study="toy", fingerprint="f", identity={}, started="")
    plan = directory.StagePlan(stage="test", units=("unit-0",), manifest={})
    listed = directory.entries

    def late(path: Path) -> set[str]:
        names = listed(path)
        if part.exists():
            part.rename(part.with_name("unit-0"))
        return names

    monkeypatch.setattr(directory, "entries", late)
    assert directory.foreign_entries(tmp_path / "run", record, [plan]) == []
    discard_part(part)
    assert (tmp_path / "run" / "units" / "unit-0").is_dir()
