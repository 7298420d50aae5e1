"""The fingerprint of a check changes with the code that it runs, and with nothing else."""

import subprocess
import sys
from pathlib import Path

MODULE = '''
"""A module."""

LIMIT = {limit}
CHOICES = {{"a", "b", "c"}}


class Base:
    def double(self, x):
        """{words}"""
        return {factor} * x


class Helper(Base):
    """A helper."""


def inner(x):
    return x if x in ("p", "q", "r") else {operation}


def outer(x):
    # {words}
    return Helper().double(inner(x)) + LIMIT


def unrelated():
    return {unrelated}
'''
PLAIN = {"limit": 3, "words": "Twice.", "factor": 2, "operation": "x + 1", "unrelated": "1"}


def fingerprint(folder: Path, **changes: object) -> str:
    """The fingerprint of `outer` in a process of its own, as a module of the project."""
    package = folder / "proofs_under_test"
    package.mkdir(exist_ok=True)
    (package / "example.py").write_text(MODULE.format(**{**PLAIN, **changes}))
    program = (
        f"import sys; sys.path.insert(0, {str(package)!r}); sys.dont_write_bytecode = True\n"
        "from proofs.numeric import sources; import example\n"
        "sources._OURS = ('example',)\n"
        "print(sources.fingerprint(example.outer))"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return process.stdout.strip()


def test_only_code_that_is_reached_counts(tmp_path: Path) -> None:
    plain = fingerprint(tmp_path)
    assert len(plain) == 16
    assert fingerprint(tmp_path) == plain
    assert fingerprint(tmp_path, words="Two times.") == plain
    assert fingerprint(tmp_path, unrelated="2") == plain
    assert fingerprint(tmp_path, limit=4) != plain
    assert fingerprint(tmp_path, factor=3) != plain
    assert fingerprint(tmp_path, operation="x - 1") != plain


def test_a_check_reaches_its_function_its_rules_its_reference_and_its_cases() -> None:
    program = (
        "from finite_calculus import rounding\n"
        "from proofs.numeric import sources\n"
        "from proofs.numeric.checks import CHECKS\n"
        "seen = {}\n"
        "for root in (CHECKS['finite_response'], rounding.Tracked):\n"
        "    for line in sources._describe(root, seen): print(line.split()[0])"
    )
    process = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    reached = set(process.stdout.split())
    assert {
        "finite_calculus.response.reallocate",
        "finite_calculus._sum_rules._matmul",
        "proofs.references.vectors.softmax",
        "proofs.references.numbers.prove",
        "proofs.numeric.regimes.increments",
        "proofs.numeric.comparison._BatchedCheck.batch",
    } <= reached
    assert not any(name.startswith("finite_calculus.sparse") for name in reached)
