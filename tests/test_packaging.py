"""The wheel stands alone: proofs and Coq sources travel with it and verify runs from an empty place."""

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture(scope="module")
def unpacked(tmp_path_factory) -> Path:
    target = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(target)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = target.glob("finite_calculus-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(target / "site")
    return target / "site"


def run(site: Path, where: Path, *command: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONSAFEPATH": "1"}
    return subprocess.run(
        [sys.executable, *command], cwd=where, env=environment, capture_output=True, text=True
    )


def test_the_wheel_carries_proofs_checks_and_types(unpacked: Path) -> None:
    for name in ("finite_calculus/py.typed", "proofs/ledger.py", "native_checks/__init__.py"):
        assert (unpacked / name).is_file()
    shipped = {path.name for path in (unpacked / "proofs" / "coq").glob("*.v")}
    assert shipped == {path.name for path in (ROOT / "proofs" / "coq").glob("*.v")}
    assert not list(unpacked.rglob("tests"))


def test_an_installed_wheel_verifies_outside_the_repository(unpacked: Path, tmp_path: Path) -> None:
    where = run(unpacked, tmp_path, "-c", "import proofs; print(proofs.__file__)")
    assert str(unpacked) in where.stdout
    given = ["verify", "--only", "main:joint", "--cases", "2", "--jobs", "1"]
    result = run(unpacked, tmp_path, "-m", "finite_calculus.cli", *given)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 statements: 1 proved" in result.stdout


def test_nothing_in_the_repository_names_a_machine_or_the_shared_folder() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    words = ["/".join(("..", "shared")), "/".join(("", "root", "")), "/".join(("", "work", ""))]
    for name in listed.stdout.split():
        text = (ROOT / name).read_bytes().decode("utf-8", errors="ignore")
        assert not [word for word in words if word in text], name
