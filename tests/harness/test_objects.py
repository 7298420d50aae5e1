"""A run at an address: the records of a directory, whoever else works there, whatever is put there.

Most of it runs on fsspec's store in memory; what a user does by command also on an S3-compatible server of
this machine (moto).
"""

import io
import json
import threading
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from finite_calculus.harness import claims, objects
from finite_calculus.harness.directory import NoRunError
from finite_calculus.harness.errors import ChangedRunError, StoreError
from finite_calculus.harness.ray_cluster import RayCluster
from finite_calculus.harness.runner import run
from finite_calculus.harness.status import status
from finite_calculus.harness.store import opened, reading
from tests.helpers.studies import command, contents
from tests.helpers.toy_study import STUDY, ToySettings

SETTINGS = ToySettings(units=2)
UNIT = "/run/units/test-0.zip"


@pytest.fixture
def memory() -> Iterator[dict[str, Any]]:
    """An empty store in memory: its objects by name."""
    MemoryFileSystem.store.clear()
    MemoryFileSystem.pseudo_dirs[:] = [""]
    yield MemoryFileSystem.store
    MemoryFileSystem.store.clear()


@pytest.fixture
def directory_run(tmp_path: Path) -> Path:
    run(STUDY, SETTINGS, tmp_path / "directory")
    return tmp_path / "directory"


def work(settings: ToySettings = SETTINGS, address: str = "memory://run") -> Any:
    with opened(address, write=True) as store:
        return run(STUDY, settings, store)


def recorded(address: str = "memory://run") -> dict[str, bytes]:
    with reading(address) as path:
        return contents(path)


def put(name: str, blob: bytes) -> None:
    fsspec.filesystem("memory").pipe_file(name, blob)


@pytest.mark.usefixtures("toy_installed")
def test_two_workers_on_a_server_leave_the_records_of_a_directory(
    directory_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = pytest.importorskip("moto.server").ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    for name, word in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, word)
    try:
        fsspec.filesystem("s3", skip_instance_cache=True).mkdir("bucket")
        address = "s3://bucket/run"
        given = ["--units", "2", "--out", address, "--threads", "1", "--quiet"]
        result = command("run", "toy", *given, "--workers", "2")
        assert result.exit_code == 0, result.output
        assert "4 of 4 units are done in s3://bucket/run" in result.output
        assert recorded(address) == contents(directory_run)
        assert command("work", address, "--quiet").exit_code == 0
        assert command("replay", address, "--quiet").exit_code == 0
        shown = command("status", address)
        assert shown.exit_code == 0, shown.output
        assert "4 of 4 done, every sha256 verified, complete" in shown.output
        assert "4 numbers of 4 units, all agree" in shown.output
        target = ["--out", str(tmp_path / "tables"), "--archive", str(tmp_path / "archive")]
        assert command("summary", address, *target, "--quiet").exit_code == 0
        assert (tmp_path / "archive" / "manifest.json").exists()
    finally:
        server.stop()


class Whole(MemoryFileSystem):
    """A store in memory whose objects are there whole or not at all, as they are in a bucket."""

    protocol = "whole"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012
    lock = threading.RLock()

    def pipe_file(self, *words: Any, **more: Any) -> None:
        with self.lock:
            super().pipe_file(*words, **more)

    def cat_file(self, *words: Any, **more: Any) -> Any:
        with self.lock:
            return super().cat_file(*words, **more)

    def get_file(self, *words: Any, **more: Any) -> None:
        with self.lock:
            super().get_file(*words, **more)

    def ls(self, *words: Any, **more: Any) -> Any:
        with self.lock:
            return super().ls(*words, **more)


def test_two_workers_at_once_share_the_units(directory_run: Path) -> None:
    fsspec.register_implementation("whole", Whole, clobber=True)
    address, memory = "whole://run", Whole.store
    threads = [threading.Thread(target=work, args=(SETTINGS, address)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert recorded(address) == contents(directory_run)
    assert sum("/logs/" in name for name in memory) == 2
    assert not [name for name in memory if "/claims/" in name]


def test_what_a_killed_worker_held_is_free_after_a_lease(
    memory: dict[str, Any], directory_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "BEAT", 0.01)
    monkeypatch.setattr(claims, "LEASE", 0.05)
    put("/run/claims/calibrate-0", json.dumps(claims.owner_words()).encode())
    put("/run/claims/.setup", json.dumps(claims.owner_words()).encode())
    assert work().done == 4
    assert recorded() == contents(directory_run)


def test_a_claim_that_grows_is_nobody_elses(
    memory: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "BEAT", 0.01)
    monkeypatch.setattr(claims, "LEASE", 0.5)
    with opened("memory://run") as mine, opened("memory://run") as other:
        with mine.claimed("unit") as held:
            assert held
            for _ in range(100):
                with other.claimed("unit") as taken:
                    assert not taken
                threading.Event().wait(0.01)
        with other.claimed("unit") as taken:
            assert taken


def test_a_woken_worker_leaves_the_claim_of_another(
    memory: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(claims, "BEAT", 0.01)
    with opened("memory://run") as store:
        with store.claimed("unit"):
            put("/run/claims/unit", b"another")
            threading.Event().wait(0.1)
        assert bytes(memory["/run/claims/unit"].getvalue()) == b"another"


@pytest.mark.parametrize("late", [False, True])
def test_a_second_commit_is_compared_and_not_written(
    memory: dict[str, Any], monkeypatch: pytest.MonkeyPatch, late: bool
) -> None:
    files = {"captures.safetensors": b"first"}
    with (
        opened("memory://run") as one,
        opened("memory://run") as other,
        opened("memory://run") as third,
    ):
        assert one.commit("unit", files, fingerprint="f")
        before = memory["/run/units/unit.zip"].getvalue()
        if late:  # the other one's commit comes between its question and its own
            monkeypatch.setattr(objects.Objects, "finished", lambda *_: False)
        assert not other.commit("unit", files, fingerprint="f")
        with pytest.raises(StoreError, match="other bytes in cap"):
            third.commit("unit", {"captures.safetensors": b"second"}, fingerprint="f")
        assert memory["/run/units/unit.zip"].getvalue() == before


def test_other_settings_are_refused_and_write_nothing(memory: dict[str, Any]) -> None:
    work()
    before = {name: file.getvalue() for name, file in memory.items() if "/logs/" not in name}
    with pytest.raises(ChangedRunError, match=r"settings.seed: 5 → 6"):
        work(ToySettings(units=2, seed=6))
    assert before == {n: file.getvalue() for n, file in memory.items() if "/logs/" not in n}


def test_another_run_that_was_begun_meanwhile_is_not_written_over(memory: dict[str, Any]) -> None:
    with opened("memory://run") as store:
        put("/run/run.json", b"{}")
        (store.path / "run.json").write_text('{"study": "toy"}')
        with pytest.raises(StoreError, match=r"run/run.json was written by another process"):
            store.push()
    assert memory["/run/run.json"].getvalue() == b"{}"


class Careless(MemoryFileSystem):
    """A store that writes over what is there."""

    protocol = "careless"
    store: dict[str, Any] = {}  # noqa: RUF012
    pseudo_dirs = [""]  # noqa: RUF012

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **words: Any) -> None:
        super().pipe_file(path, value, mode="overwrite", **words)


class Broken(MemoryFileSystem):
    """A store that cannot be asked."""

    protocol = "broken"

    def ls(self, path: str, detail: bool = True, **words: Any) -> Any:
        raise ConnectionRefusedError("nobody listens")


def test_a_store_without_conditional_create_is_refused() -> None:
    fsspec.register_implementation("careless", Careless, clobber=True)
    with (
        pytest.raises(
            StoreError, match=r"careless://run must be .* conditional create.* Careless wro"
        ),
        opened("careless://run", write=True),
    ):
        pass
    assert Careless.store == {}


def test_a_store_that_does_not_answer_is_named() -> None:
    fsspec.register_implementation("broken", Broken, clobber=True)
    result = command("status", "broken://run")
    assert result.exit_code == 1, result.output
    assert "broken://run: ConnectionRefusedError: nobody listens" in result.output


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("file:///data/run", "Name the directory itself"),
        ("nowhere://run", "Protocol not known"),
        ("memory://", "Name a folder of it"),
    ],
)
def test_what_is_no_address_of_a_run_is_refused(address: str, words: str) -> None:
    result = command("status", address)
    assert result.exit_code == 2, result.output
    assert "the address of a run must be of an object store" in result.output
    assert words in result.output


def test_an_address_with_something_else_is_refused(memory: dict[str, Any]) -> None:
    put("/run/thesis.json", b"dear")
    with pytest.raises(NoRunError, match=r"memory://run must be empty .* it holds thesis.json"):
        work()
    assert [*memory] == ["/run/thesis.json"]


def test_an_empty_address_is_no_run(memory: dict[str, Any]) -> None:
    result = command("status", "memory://run")
    assert result.exit_code == 2
    assert "memory://run" in result.output
    assert "Start one with" in result.output


def test_ray_and_tables_need_a_directory(memory: dict[str, Any]) -> None:
    with (
        opened("memory://run") as store,
        pytest.raises(ValueError, match=r"`ray` needs a run in a directory .* got memory://run"),
    ):
        RayCluster("local")(STUDY, SETTINGS, store)
    result = command("summary", "memory://run")
    assert result.exit_code == 2
    assert "need --out" in result.output


def zipped(**files: bytes) -> bytes:
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, blob in files.items():
            archive.writestr(name, blob)
    return whole.getvalue()


def stored(name: str) -> Callable[[bytes], bytes]:
    def change(blob: bytes) -> bytes:
        whole = io.BytesIO(blob)
        with zipfile.ZipFile(whole, "a", zipfile.ZIP_STORED) as archive:
            archive.writestr(name, b"dear")
        return whole.getvalue()

    return change


DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "nothing": lambda blob: b"",
    "cut": lambda blob: blob[:-30],
    "a bit": lambda blob: blob.replace(b"PAR1", b"PAR0", 1),
    "no archive": lambda blob: b"dear" * 100,
    "a bomb": lambda blob: zipped(**{"captures.safetensors": bytes(50 << 20)}),
    "a path out": stored("../../thesis.json"),
    "an absolute name": stored("/data/thesis.json"),
    "a foreign file": stored("notes.json"),
    "a folder": stored("notes/"),
}


@pytest.mark.usefixtures("toy_installed")
@pytest.mark.parametrize("name", DAMAGES)
def test_a_damaged_unit_is_named_and_nothing_else_is_written(
    memory: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    work()
    put(UNIT, DAMAGES[name](bytes(memory[UNIT].getvalue())))
    with reading("memory://run") as path:
        state = status(path)
        outside = [each for each in tmp_path.rglob("thesis.json") if path not in each.parents]
    assert not state.sound
    assert any("test-0" in line for line in state.problems)
    assert outside == []
    assert list(tmp_path.iterdir()) == []


def test_a_foreign_object_among_the_units_is_named(memory: dict[str, Any]) -> None:
    work()
    put("/run/units/notes.txt", b"mine")
    with (
        pytest.raises(StoreError, match=r"must hold units .* 'notes.txt' is foreign"),
        reading("memory://run"),
    ):
        pass
