"""Imports between our packages run one way, read from the sources.

Every import counts, also one inside a function or under TYPE_CHECKING, and so does a module that is named
in a string: a cycle that hides behind a lazy import is a cycle.
"""

import ast
import re
import sys
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parent.parent
OURS = ("finite_calculus", "native_checks", "proofs")
BESIDE = ("bench", "docs", "tests", "training")

# A package may import those that stand before it in one of these lines. "core" are the files directly in
# finite_calculus/; the other names without a folder of their own are folders in it.
LINES = (
    "core provenance expressions models tasks checkpoints native_checks "
    "search cache harness report explore studies cli entry",
    "core provenance proofs cli entry",
    "proofs studies",  # the audit is one
)
BEFORE: dict[str, set[str]] = {}
for line in LINES:
    for place, name in enumerate(line.split()):
        BEFORE.setdefault(name, set()).update(line.split()[:place])

# Modules in strings that are no imports: the registry lists whatever folders `studies` has, so that the
# harness knows no study by name, a worker is another process, and a fingerprint hashes the sources of the
# gate.
BY_NAME = {
    ("finite_calculus.harness.registry", "finite_calculus.studies"),
    ("finite_calculus.harness.executors", "finite_calculus.harness.worker"),
    ("native_checks.fingerprint", "native_checks.gate"),
}


class Import(NamedTuple):
    """One import: where it stands, and the module it leads to."""

    file: Path
    line: int
    importer: str
    target: str

    def __str__(self) -> str:
        return f"{self.file.as_posix()}:{self.line} imports {self.target}"


def module_name(file: Path) -> str:
    return ".".join(file.with_suffix("").parts).removesuffix(".__init__")


def read_modules(root: Path) -> dict[str, Path]:
    """Our modules by name, each with its file relative to the root."""
    files = [path.relative_to(root) for top in OURS for path in sorted((root / top).rglob("*.py"))]
    return {module_name(file): file for file in files}


def read_imports(root: Path) -> list[Import]:
    """Every import of a module of ours, or of what stands beside the packages, by a module of ours."""
    modules = read_modules(root)
    return [
        Import(file, line, importer, target)
        for importer, file in modules.items()
        for node in ast.walk(ast.parse((root / file).read_text(encoding="utf-8")))
        for line, target in targets(node, modules, importer)
        if target.split(".")[0] in (*OURS, *BESIDE)
    ]


def targets(node: ast.AST, modules: dict[str, Path], importer: str) -> Iterator[tuple[int, str]]:
    """The modules that a node of a syntax tree leads to, with its line."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield node.lineno, alias.name
    elif isinstance(node, ast.ImportFrom):
        if node.level or node.module is None:
            raise ValueError(
                f"{modules[importer]}:{node.lineno} must write the module's whole name."
            )
        for alias in node.names:
            inner = f"{node.module}.{alias.name}"
            yield node.lineno, inner if inner in modules else node.module
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        is_module = re.fullmatch(r"\w+(\.\w+)+", node.value) and node.value in modules
        if is_module and (importer, node.value) not in BY_NAME:
            yield node.lineno, node.value


def package_of(module: str, modules: dict[str, Path]) -> str:
    """The package that a module belongs to, by its name in the lines above."""
    top, _, rest = module.partition(".")
    if top != "finite_calculus":
        return top
    if rest.rpartition(".")[2] == "__main__":  # a command, which has to stand there
        return "entry"
    first = rest.partition(".")[0]
    is_folder = modules.get(f"{top}.{first}", Path()).name == "__init__.py"
    return first if is_folder else "core"


def find_wrong(root: Path) -> list[str]:
    """The imports that run against the lines, one sentence each."""
    modules = read_modules(root)
    wrong = []
    for each in read_imports(root):
        source, target = (package_of(name, modules) for name in (each.importer, each.target))
        if source != target and target not in BEFORE[source]:
            wrong.append(f"{each}: {source} may not import {target}")
    return wrong


def make_tree(root: Path, files: dict[str, str]) -> Path:
    """A repository in small, to try the rules on."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_every_package_has_its_place_in_the_order():
    modules = read_modules(ROOT)
    assert {package_of(name, modules) for name in modules} == set(BEFORE)


def test_imports_between_packages_run_one_way():
    assert find_wrong(ROOT) == []


def test_no_file_imports_itself_through_others():
    graph: dict[str, set[str]] = {}
    for each in read_imports(ROOT):
        if each.importer != each.target:
            graph.setdefault(each.importer, set()).add(each.target)
    assert len(graph) > 100
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the files


def test_provenance_imports_the_standard_library_only():
    files = list((ROOT / "finite_calculus" / "provenance").glob("*.py"))
    assert files
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            for _, target in targets(node, {}, file.stem):
                allowed = target.split(".")[0] in sys.stdlib_module_names
                assert allowed or target.startswith("finite_calculus.provenance"), (file, target)


def test_studies_do_not_import_each_other():
    for each in read_imports(ROOT):
        source, target = (name.split(".") for name in (each.importer, each.target))
        inside = ["finite_calculus", "studies"]
        if source[:2] == inside == target[:2] and len(target) > 2:
            assert source[2] == target[2], str(each)


@pytest.mark.parametrize(
    "text",
    [
        "from finite_calculus.cli import app",
        "import finite_calculus.cli as cli",
        "def late():\n    from finite_calculus import cli",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import finite_calculus.cli",
        "LATE = 'finite_calculus.cli'",
    ],
)
def test_an_import_against_the_order_is_named_with_its_line(tmp_path: Path, text: str):
    files = {
        "finite_calculus/__init__.py": "",
        "finite_calculus/cli/__init__.py": "app = None",
        "finite_calculus/models/__init__.py": f"\n{text}",
    }
    (message,) = find_wrong(make_tree(tmp_path, files))
    line = 1 + len(text.split("\n"))
    assert message == (
        f"finite_calculus/models/__init__.py:{line} imports finite_calculus.cli: "
        "models may not import cli"
    )


def test_the_packages_import_no_tests(tmp_path: Path):
    files = {"finite_calculus/__init__.py": "", "proofs/__init__.py": "from tests import recipes"}
    (message,) = find_wrong(make_tree(tmp_path, files))
    assert message.endswith("proofs may not import tests")
