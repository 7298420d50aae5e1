"""The embedded model, runs of the joint study on it, and one finished run to look at."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from finite_calculus.checkpoints import load
from finite_calculus.harness import registry
from finite_calculus.harness.runner import run
from finite_calculus.studies.joint_kv import STUDY, JointKVSettings
from tests.helpers.studies import small

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def embedded() -> tuple[Any, Any]:
    """Model and tokenizer."""
    return load("embedded")


@pytest.fixture(scope="session")
def runs(embedded: tuple[Any, Any]) -> Callable[..., Any]:
    """Run the joint study on the embedded model."""

    def start(out: Path, settings: JointKVSettings | None = None, **options: Any) -> Any:
        return run(STUDY, settings or small(), out, loaded=embedded, **options)

    return start


@pytest.fixture(scope="session")
def finished(runs: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, to be read only."""
    out = tmp_path_factory.mktemp("finished") / "run"
    runs(out)
    return out


@pytest.fixture
def copied(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, to be broken."""
    return Path(shutil.copytree(finished, tmp_path / "run"))


@pytest.fixture
def toy_installed(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The toy as an installed distribution, also for worker processes."""
    site = tmp_path_factory.mktemp("site")
    folder = site / "toy_study-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: toy-study\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text(
        f"[{registry.GROUP}]\ntoy = tests.helpers.toy_study:STUDY\n"
    )
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.setenv("PYTHONPATH", f"{site}:{ROOT}")
