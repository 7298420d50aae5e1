"""The joint study on a folder that `save_pretrained` wrote, and on a model of a hub."""

import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from finite_calculus.checkpoints import load
from finite_calculus.harness import directory
from tests.helpers.hub import Hub, command, serve
from tests.helpers.studies import contents

pytestmark = pytest.mark.xdist_group("any model")  # one worker makes its run, once

WORDS = ["--task", "retrieval", "--layers", "2", "--strengths", "0.5", "--pairs", "3"]
WORDS += ["--batch", "26", "--threads", "1"]


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Hub, Path]]:
    """A hub with the embedded model in it, and the folder that was published."""
    folder = tmp_path_factory.mktemp("saved") / "mine"
    for part in load("embedded"):
        part.save_pretrained(folder)  # pyright: ignore[reportOptionalMemberAccess]
    with serve() as running:
        running.publish("owner/mine", folder)
        yield running, folder


def run_study(model: str, hub: Hub, out: Path, home: Path, *more: str) -> dict[str, str]:
    """What run.json says of the model after a run."""
    words = ["run", "joint-kv", "--model", model, *WORDS, "--out", str(out), *more]
    done = command(*words, endpoint=hub.endpoint, home=home)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 of 3 units are done" in done.stdout
    return dict(directory.read_run(out).identity["made_with"])


def records(run: Path) -> list[dict]:
    paths = sorted((run / directory.UNITS).glob("*/records.parquet"))
    return [row for path in paths for row in pq.ParquetFile(path).read().to_pylist()]


def test_a_folder_and_a_hub_id_give_the_records_of_the_named_model(
    hub: tuple[Hub, Path], finished: Path, tmp_path: Path
) -> None:
    running, folder = hub
    from_folder = run_study(str(folder), running, tmp_path / "folder", tmp_path / "home")
    assert (from_folder["source"], from_folder["source_name"]) == ("folder", "mine")
    from_hub = run_study("owner/mine", running, tmp_path / "hub", tmp_path / "home")
    commit = running.repositories["owner/mine"].branches["main"]
    assert (from_hub["source"], from_hub["source_commit"]) == ("hub", commit)
    assert from_hub["weights"] == from_folder["weights"]
    assert records(tmp_path / "hub") == records(tmp_path / "folder") == records(finished)


def test_workers_find_the_folder_and_no_record_names_its_place(
    hub: tuple[Hub, Path], tmp_path: Path
) -> None:
    running, folder = hub
    out = tmp_path / "run"
    run_study(str(folder), running, out, tmp_path / "home", "--workers", "2")
    log = (out / "run.log").read_text()
    assert len({line.split()[2] for line in log.splitlines()}) == 2
    settings = json.loads((out / "run.json").read_text())["identity"]["settings"]
    assert settings["model"] == "./mine"
    assert not [name for name, data in contents(out).items() if bytes(folder.parent) in data]
    assert str(folder.parent) not in (out / "run.json").read_text()


def test_a_moved_branch_is_another_run(hub: tuple[Hub, Path], tmp_path: Path) -> None:
    """The commit is part of the identity: what a branch was yesterday is not continued today."""
    running, folder = hub
    home, out = tmp_path / "home", tmp_path / "run"
    first = running.publish("owner/moving", folder)
    run_study("owner/moving", running, out, home)
    (folder / "README.md").write_text("another commit")
    running.publish("owner/moving", folder)
    (folder / "README.md").unlink()
    words = ["run", "joint-kv", "--model", "owner/moving", *WORDS, "--out", str(out)]
    done = command(*words, endpoint=running.endpoint, home=home)
    assert done.returncode == 2
    assert "made_with.source_commit" in done.stdout
    again = run_study(f"owner/moving@{first}", running, tmp_path / "pinned", home)
    assert again["source_commit"] == first
