"""What tests of the harness and of studies share: small settings, runs on the embedded model, their files."""

from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from finite_calculus.cli import app
from finite_calculus.harness import directory
from finite_calculus.studies.joint_kv import JointKVSettings, joint_settings


def small(**changes: Any) -> JointKVSettings:
    """Three pairs at one layer of the embedded model, a fractional strength included."""
    given = {"tasks": ("retrieval",), "layers": (2,), "strengths": (0.5,), "pairs": 3, "batch": 26}
    return joint_settings("embedded", **{**given, **changes})


def contents(run: Path) -> dict[str, bytes]:
    """Every file of the units and weights but the seals, which hold times."""
    return {
        path.relative_to(run).as_posix(): path.read_bytes()
        for part in (directory.UNITS, directory.WEIGHTS)
        for path in sorted((run / part).rglob("*"))
        if path.is_file() and path.name != "seal.json"
    }


def command(*words: str):
    """The result of a command line."""
    return CliRunner().invoke(app, list(words))


def plain(text: str) -> str:
    """The text of a message without its frame and line breaks."""
    return " ".join(text.replace("│", " ").split())
