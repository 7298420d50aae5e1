"""A run directory that somebody else has had in hand: what is wrong is named, and nothing outside is touched.

Each attack changes a finished run. Every command must then end with an exit code of its own and without a
traceback, `status` must not call the run sound, and a folder beside it must be as it was.
"""

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from safetensors.numpy import save

from finite_calculus.harness.archive import archive
from finite_calculus.harness.runner import run
from finite_calculus.harness.status import status
from finite_calculus.provenance.digests import digest
from tests.helpers.studies import command
from tests.helpers.toy_study import STUDY, ToySettings

pytestmark = pytest.mark.usefixtures("toy_installed")
SETTINGS = ToySettings(units=2)
Attack = Callable[[Path, Path], Any]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("whole") / "run"
    run(STUDY, SETTINGS, out)
    return out


@pytest.fixture
def attacked(whole: Path, tmp_path: Path) -> Path:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "thesis.json").write_text("dear")
    return Path(shutil.copytree(whole, tmp_path / "run"))


def reseal(shard: Path) -> None:
    """Make a seal agree with its files, as somebody would who means it."""
    seal = json.loads((shard / "seal.json").read_text())
    names = [path.name for path in shard.iterdir() if path.name != "seal.json"]
    seal["sha256"] = {name: digest((shard / name).read_bytes()) for name in names}
    (shard / "seal.json").write_text(json.dumps(seal))


def edited(name: str, **changes: Any) -> Attack:
    """A JSON file with other values."""

    def attack(out: Path, outside: Path) -> None:
        path = out / name
        path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))

    return attack


def written(name: str, blob: bytes) -> Attack:
    def attack(out: Path, outside: Path) -> None:
        (out / name).parent.mkdir(exist_ok=True)
        (out / name).write_bytes(blob)

    return attack


def linked(name: str, target: str) -> Attack:
    """A name of the run as a link to something outside; what was there is moved outside first."""

    def attack(out: Path, outside: Path) -> None:
        path = out / name
        if path.is_dir():
            shutil.move(path, outside / target)
        else:
            path.unlink(missing_ok=True)
        path.symlink_to(outside / target)

    return attack


def piped(name: str) -> Attack:
    def attack(out: Path, outside: Path) -> None:
        (out / name).unlink(missing_ok=True)
        os.mkfifo(out / name)

    return attack


def table(rows: dict[str, list[Any]] | pa.Table) -> Attack:
    """Another table in a unit, with a seal that agrees."""

    def attack(out: Path, outside: Path) -> None:
        shard = out / "units" / "test-0"
        pq.write_table(
            rows if isinstance(rows, pa.Table) else pa.table(rows), shard / "means.parquet"
        )
        reseal(shard)

    return attack


def swapped(out: Path, outside: Path) -> None:
    """The files of one unit in another, with its seal made to agree."""
    for name in ("means.parquet", "captures.safetensors"):
        shutil.copy(out / "units" / "test-1" / name, out / "units" / "test-0" / name)
    reseal(out / "units" / "test-0")


def tensors(blob: bytes) -> Attack:
    def attack(out: Path, outside: Path) -> None:
        shard = out / "units" / "calibrate-0"
        (shard / "captures.safetensors").write_bytes(blob)
        reseal(shard)

    return attack


def sealed(*names: str) -> Attack:
    """A seal that names files that no run writes."""

    def attack(out: Path, outside: Path) -> None:
        path = out / "units" / "test-0" / "seal.json"
        seal = json.loads(path.read_text())
        seal["sha256"] |= dict.fromkeys(names, digest(b"dear"))
        path.write_text(json.dumps(seal))

    return attack


def bomb() -> pa.Table:
    """A table of a few kilobytes that says the same number a hundred million times, and twice again."""
    means = pa.array([0.5]).take(pa.array([0] * (1 << 20)))
    return pa.table({f"column {n}": means for n in range(256)})


LYING = (1 << 40).to_bytes(8, "little") + b"{}"
OFFSETS = json.dumps(
    {"draws": {"dtype": "F64", "shape": [8], "data_offsets": [0, 1 << 40]}}
).encode()
DEEP = b"[" * 100_000 + b"]" * 100_000
ATTACKS: dict[str, Attack] = {
    "truncated table": lambda out, _: os.truncate(out / "units/test-0/means.parquet", 100),
    "empty seal": written("units/test-0/seal.json", b""),
    "nested seal": written("units/test-0/seal.json", DEEP),
    "seal that is a list": written("units/test-0/seal.json", b"[]"),
    "seal of an infinity": edited("units/test-0/seal.json", seconds=float("inf")),
    "traversal in a seal": sealed("../../../outside/thesis.json"),
    "absolute name in a seal": sealed("/etc/passwd.json"),
    "seal of ten thousand names": sealed(*(f"{n}.json" for n in range(10_000))),
    "swapped files": swapped,
    "foreign unit": lambda out, _: shutil.copytree(out / "units/test-0", out / "units/test-7"),
    "foreign file": written("units/test-0/notes.txt", b"mine"),
    "duplicate file": written("units/test-0/means (1).parquet", b"mine"),
    "renamed unit": lambda out, _: (out / "units/test-0").rename(out / "units/test-9"),
    "other columns": table({"a": [1]}),
    "other types": table({"stage": [1], "mean": ["x"], "above": [0.5]}),
    "bomb of rows": lambda out, _: table(bomb())(out, _),
    "no table": lambda out, _: (written("units/test-0/means.parquet", b"PAR1"), reseal)[0](out, _),
    "run.json cut": written("run.json", b'{"study": "toy"'),
    "run.json nested": written("run.json", DEEP),
    "run.json with NaN": edited("run.json", fingerprint=float("nan")),
    "run.json of the first version": edited("run.json", units=["calibrate-0"]),
    "plan cut": written("plan-test.json", b"{"),
    "plan with a path": edited("plan-test.json", units=["../outside"]),
    "unit taken out of a plan": edited("plan-test.json", units=["test-0"]),
    "unit taken out of the first plan": edited("plan-calibrate.json", units=["calibrate-0"]),
    "unit twice in a plan": edited("plan-test.json", units=["test-0", "test-0"]),
    "replay forged": written("replay.json", b"{}"),
    "replay of nothing": written("replay.json", b"[" * 5000),
    "linked run.json": linked("run.json", "thesis.json"),
    "linked unit": linked("units/test-0", "unit"),
    "linked units": linked("units", "units"),
    "linked replay": linked("replay.json", "thesis.json"),
    "linked log": linked("run.log", "thesis.json"),
    "linked table": linked("units/test-0/means.parquet", "thesis.json"),
    "linked claims": linked("claims", "claims"),
    "piped run.json": piped("run.json"),
    "piped plan": piped("plan-test.json"),
    "piped seal": piped("units/test-0/seal.json"),
    "piped table": piped("units/test-0/means.parquet"),
    "piped replay": piped("replay.json"),
}  # fmt: skip


@contextmanager
def no_waiting(seconds: int) -> Iterator[None]:
    """Fail where something waits for a pipe that nobody writes to."""

    def stop(*_: object) -> None:
        raise AssertionError("a command waits")

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_named_and_touches_nothing_outside(
    attacked: Path, tmp_path: Path, name: str
) -> None:
    outside = tmp_path / "outside"
    ATTACKS[name](attacked, outside)
    before = {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()}
    places = [str(attacked), "--out", str(tmp_path / "summary")]
    with no_waiting(60):
        for words in (
            ["status", str(attacked)],
            ["replay", str(attacked), "--quiet"],
            ["summary", *places, "--archive", str(tmp_path / "archive")],
            ["work", str(attacked), "--quiet"],
        ):
            result = command(*words)
            assert result.exception is None or isinstance(result.exception, SystemExit), (
                words[0],
                result.exception,
            )
            assert result.exit_code in (0, 1, 2), result.output
            assert len(result.output) < 10_000
            if words[0] == "status":
                assert result.exit_code != 0, result.output
    assert {path: path.read_bytes() for path in outside.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    "attack",
    [
        tensors(LYING),
        tensors(len(OFFSETS).to_bytes(8, "little") + OFFSETS),
        tensors(save({})),
        tensors(b""),
    ],
    ids=["a header of a terabyte", "offsets beyond the file", "no tensors", "empty"],
)
def test_tensors_that_lie_are_named_by_replay(
    attacked: Path, tmp_path: Path, attack: Attack
) -> None:
    attack(attacked, tmp_path / "outside")
    result = command("replay", str(attacked), "--quiet")
    assert result.exit_code == 1
    assert "calibrate-0" in result.output


def test_what_hashes_cannot_see_is_seen_in_the_root_hash(attacked: Path, tmp_path: Path) -> None:
    before = status(attacked).root
    assert len(before) == 64
    assert status(attacked).root == before
    shard = attacked / "units" / "test-0"
    rows = pq.read_table(shard / "means.parquet")
    scaled = rows.set_column(1, rows.schema.field("mean"), pa.array([0.25]))
    pq.write_table(scaled, shard / "means.parquet")
    reseal(shard)
    forged = status(attacked)
    assert forged.sound
    assert forged.root != before


@pytest.mark.parametrize("name", ["policy-calibrate.json", "run.json", "replay.json", "from.json"])
def test_every_file_is_in_the_root_hash(attacked: Path, name: str) -> None:
    before = status(attacked).root
    path = attacked / name
    content = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(
        json.dumps({**content, "started": "yesterday"} if name == "run.json" else content)
    )
    path.write_text(path.read_text() + "\n")
    assert status(attacked).root != before


def test_a_summary_replaces_its_own_files_and_no_others(attacked: Path, tmp_path: Path) -> None:
    target = tmp_path / "tables"
    for _ in range(2):
        assert command("summary", str(attacked), "--out", str(target)).exit_code == 0
    (target / "summary.md").write_text("# My notes")
    result = command("summary", str(attacked), "--out", str(target))
    assert result.exit_code == 1
    assert "was written by somebody else" in result.output
    assert (target / "summary.md").read_text() == "# My notes"
    (target / "summary.md").unlink()
    (target / "summary.md").symlink_to(tmp_path / "outside" / "thesis.json")
    assert command("summary", str(attacked), "--out", str(target)).exit_code == 1
    assert (tmp_path / "outside" / "thesis.json").read_text() == "dear"


@pytest.mark.parametrize(
    ("name", "blob"),
    [
        ("manifest.json", b"{"),
        ("manifest.json", DEEP),
        ("manifest.json", b'{"sha256": 5}'),
        ("manifest.json", b'{"study": "toy", "sha256": {"../run/run.json": "x"}}'),
        ("units.json", b'{"../x": {"rows": {}, "dropped": {}, "seconds": 0}}'),
        ("units.json", b"[]"),
        ("means.parquet", b"PAR1"),
    ],
)
def test_a_damaged_archive_is_named(whole: Path, tmp_path: Path, name: str, blob: bytes) -> None:
    archive(whole, tmp_path / "archive")
    (tmp_path / "archive" / name).write_bytes(blob)
    if name != "manifest.json":
        manifest = json.loads((tmp_path / "archive" / "manifest.json").read_text())
        manifest["sha256"][name] = digest(blob)
        (tmp_path / "archive" / "manifest.json").write_text(json.dumps(manifest))
    given = ["--units", "2", "--out", str(tmp_path / "on"), "--from", str(tmp_path / "archive")]
    for words in (
        ["again", str(tmp_path / "archive"), "test-0"],
        ["run", "toy", *given, "--quiet"],
    ):
        result = command(*words)
        assert isinstance(result.exception, SystemExit), result.exception
        assert result.exit_code in (1, 2)
        assert "damaged" in result.output or "must be" in result.output
