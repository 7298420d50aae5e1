"""The wheel stands alone: proofs and Coq sources travel with it and verify runs from an empty place."""

import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

import finite_calculus
from hatch_build import rewrite

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


def test_the_wheel_puts_nothing_but_our_package_at_the_top(unpacked: Path) -> None:
    names = {path.name for path in unpacked.iterdir() if path.suffix != ".dist-info"}
    assert names == {"finite_calculus"}


def test_the_wheel_carries_every_source_proof_and_type(unpacked: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "finite_calculus", "proofs", "native_checks"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    top = "finite_calculus/"
    tracked = {top + name.removeprefix(top) for name in listed.stdout.split()}
    package = unpacked / "finite_calculus"
    assert {path.relative_to(unpacked).as_posix() for path in package.rglob("*.*")} >= tracked
    assert (package / "py.typed").is_file()
    assert not list(unpacked.rglob("tests"))


def test_no_module_of_the_wheel_imports_a_moved_package_by_its_old_name(unpacked: Path) -> None:
    old = re.compile(r"(import|from) (proofs|native_checks)\b|['\"](proofs|native_checks)\.")
    files = sorted((unpacked / "finite_calculus").rglob("*.py"))
    assert len(files) > 150
    for file in files:
        wrong = [m for m in old.finditer(file.read_text()) if not _is_new(m)]
        assert not wrong, (file, wrong)


def _is_new(match: re.Match[str]) -> bool:
    """`from finite_calculus import proofs`."""
    return match.string[: match.start()].endswith("from finite_calculus ")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import proofs\n", "from finite_calculus import proofs\n"),
        ("if 1:\n    from proofs import x", "if 1:\n    from finite_calculus.proofs import x"),
        ("from proofs.entry import Entry", "from finite_calculus.proofs.entry import Entry"),
        ("import proofs.entry as e", "import finite_calculus.proofs.entry as e"),
        ('f"proofs.topics.{name}"', 'f"finite_calculus.proofs.topics.{name}"'),
        ("native_checks = proofs['a']", "native_checks = proofs['a']"),
        ('"""All proofs. See proofs/coq."""', '"""All proofs. See proofs/coq."""'),
        ("thing.proofs.first", "thing.proofs.first"),
    ],
)
def test_names_of_moved_packages_are_rewritten_and_nothing_else(text: str, expected: str) -> None:
    assert rewrite(text, "file.py") == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import proofs.entry\nproofs.entry.Entry", "file.py:2 must not write `proofs.entry`"),
        ("import os, proofs", "file.py:1 imports in a form that the wheel cannot rename"),
        ("import proofs as p", "file.py:1 imports in a form that the wheel cannot rename"),
    ],
)
def test_what_could_be_rewritten_wrongly_stops_the_build(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        rewrite(text, "file.py")


def test_an_installed_wheel_verifies_outside_the_repository(unpacked: Path, tmp_path: Path) -> None:
    program = "from finite_calculus import proofs; print(proofs.__file__)"
    assert str(unpacked) in run(unpacked, tmp_path, "-c", program).stdout
    words = ["verify", "--only", "main:joint", "--cases", "2", "--jobs", "1"]
    result = run(unpacked, tmp_path, "-m", "finite_calculus", *words)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 statements: 1 proved" in result.stdout


def test_an_installed_wheel_checks_a_model_outside_the_repository(
    unpacked: Path, tmp_path: Path
) -> None:
    words = ["preflight", "embedded", "--only-target", "--quiet"]
    result = run(unpacked, tmp_path, "-m", "finite_calculus", *words)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "gate open: embedded" in result.stdout


def test_a_run_is_the_same_code_in_the_wheel_and_in_the_repository(
    unpacked: Path, tmp_path: Path
) -> None:
    """Otherwise a run begun with one could not be resumed with the other."""
    program = (
        "from finite_calculus.harness.identity import study_sources\n"
        "from finite_calculus.studies.joint_kv import STUDY\n"
        "print(study_sources(STUDY))"
    )
    digests = {run(place, tmp_path, "-c", program).stdout for place in (unpacked, ROOT)}
    assert len(digests) == 1
    assert "finite_calculus.joint" in digests.pop()


def test_nothing_in_the_repository_names_a_machine_or_the_shared_folder() -> None:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    words = ["/".join(("..", "shared")), "/".join(("", "root", "")), "/".join(("", "work", ""))]
    for name in listed.stdout.split():
        text = (ROOT / name).read_bytes().decode("utf-8", errors="ignore")
        assert not [word for word in words if word in text], name


def test_the_lowest_versions_are_the_bounds_of_the_project_file() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["project"]["optional-dependencies"]
    required = [*project["project"]["dependencies"], *project["build-system"]["requires"]]
    required += [each for group in groups.values() for each in group if ">=" in each]
    bounds = dict(re.findall(r"^([\w-]+)>=([\d.]+)", "\n".join(required), re.MULTILINE))
    lines = (ROOT / "requirements.lowest.txt").read_text().splitlines()
    lowest = dict(line.split("==") for line in lines if line and not line.startswith("#"))
    for name in bounds.keys() - {"ruff", "pyright"}:  # `make lint` is not part of `make lowest`
        assert re.fullmatch(re.escape(bounds[name]) + r"(\.0)*", lowest[name]), name


def test_the_citation_names_the_version() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    assert f"\nversion: {finite_calculus.__version__}\n" in text
