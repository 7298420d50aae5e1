"""What `import finite_calculus` brings: its public surface, and nothing that it does not need."""

import ast
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

import finite_calculus

PACKAGE = Path(finite_calculus.__file__).parent
# Those of the dependencies and neighbours that only verification, models or the terminal need.
UNNEEDED = [
    "transformers",
    "sympy",
    "mpmath",
    "flint",
    "matplotlib",
    "typer",
    "rich",
    "pydantic",
    "pyarrow",
    "safetensors",
    "proofs",
    "native_checks",
    "beartype",
    "pytest",
]
# Private: not part of the API.
EXPORTED = sorted(
    name
    for name, thing in vars(finite_calculus).items()
    if not name.startswith("_") and not inspect.ismodule(thing)
)


def modules() -> list[str]:
    """The files that export something; one with an underscore serves other files alone."""
    return sorted(path.stem for path in PACKAGE.glob("*.py") if not path.stem.startswith("_"))


def definitions(module: str) -> set[str]:
    """Public functions and classes that a file defines itself, read from its text."""
    tree = ast.parse((PACKAGE / f"{module}.py").read_text())
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {n.name for n in tree.body if isinstance(n, kinds) and not n.name.startswith("_")}


def passed_on(module: str) -> set[str]:
    """Names that a file takes from another one to export them as its own."""
    tree = ast.parse((PACKAGE / f"{module}.py").read_text())
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {alias.name for node in imports for alias in node.names if alias.asname == alias.name}


def exports() -> dict[str, str]:
    """Names that `__init__` imports, with the module each comes from, read from its text."""
    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    return {
        alias.name: str(node.module).removeprefix("finite_calculus.")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def names_for_others(module: str) -> set[str]:
    """Names that other files of the package import from one, and the types these return."""
    used = {
        alias.name
        for path in PACKAGE.glob("*.py")
        if path.stem not in (module, "__init__")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and node.module == f"finite_calculus.{module}"
        for alias in node.names
    }
    body = ast.parse((PACKAGE / f"{module}.py").read_text()).body
    functions = [n for n in body if isinstance(n, ast.FunctionDef) and n.name in used]
    return used | {n.returns.id for n in functions if isinstance(n.returns, ast.Name)}


PROGRAM = """
import json, sys
import torch

def settings():
    state = torch.get_rng_state().tolist()
    return [state, str(torch.get_default_dtype()), torch.get_num_threads(), torch.is_grad_enabled()]

before = settings()
{statement}
report = {{"modules": sorted(sys.modules), "unchanged": settings() == before}}
print(json.dumps(report))
"""


def report_of(statement: str) -> dict[str, Any]:
    """What a statement does in a fresh interpreter, with warnings as errors."""
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", PROGRAM.format(statement=statement)],
        capture_output=True,
        text=True,
        check=False,
        cwd=PACKAGE.parent,
    )
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def fresh() -> dict[str, Any]:
    """What importing the package does."""
    return report_of("import finite_calculus")


def test_importing_the_package_imports_nothing_that_it_does_not_need(fresh: dict[str, Any]):
    assert "finite_calculus.sparse" in fresh["modules"]
    assert [name for name in UNNEEDED if name in fresh["modules"]] == []


def test_importing_provenance_adds_only_the_standard_library(fresh: dict[str, Any]):
    """It needs no torch itself; the package that it lies in brings torch."""
    names = [path.stem for path in (PACKAGE / "provenance").glob("*.py") if path.stem[0] != "_"]
    report = report_of(f"from finite_calculus.provenance import {', '.join(names)}")
    more = {name.partition(".")[0] for name in set(report["modules"]) - set(fresh["modules"])}
    assert more - {"finite_calculus"} <= sys.stdlib_module_names


@pytest.mark.parametrize(
    "module", ["checkpoints", "cli", "entry", "harness", "studies.joint_kv", "tasks"]
)
def test_what_loads_no_model_imports_no_transformers(module: str):
    modules = report_of(f"import finite_calculus.{module}")["modules"]
    assert f"finite_calculus.{module}" in modules
    assert "transformers" not in modules


def test_importing_the_package_draws_no_random_number_and_changes_no_setting_of_torch(
    fresh: dict[str, Any],
):
    assert fresh["unchanged"] is True


@pytest.mark.parametrize("name", EXPORTED)
def test_every_exported_name_is_documented(name: str):
    thing = getattr(finite_calculus, name)
    text = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    assert text
    # A dataclass without a docstring is given its signature as one.
    assert not text.startswith(f"{name}(")
    assert thing.__module__.startswith("finite_calculus.")


@pytest.mark.parametrize("name", EXPORTED)
def test_every_public_method_of_an_exported_class_is_documented(name: str):
    exported = getattr(finite_calculus, name)
    members = vars(exported) if inspect.isclass(exported) else {}
    docstrings = {
        member: getattr(thing, "__func__", thing).__doc__
        for member, thing in members.items()
        if not member.startswith("_")
        and isinstance(getattr(thing, "__func__", thing), property | FunctionType)
    }
    assert [member for member, text in docstrings.items() if not text] == []


@pytest.mark.parametrize("module", modules())
def test_a_public_name_is_exported_or_serves_another_file(module: str):
    exported = {name for name, source in exports().items() if source == module}
    assert exported
    assert exported <= definitions(module) | passed_on(module)
    assert definitions(module) - exported <= names_for_others(module)


def test_no_exported_name_is_stale_and_none_appears_by_accident():
    assert sorted(exports()) == EXPORTED
    assert set(exports().values()) <= set(modules())
    for name, module in exports().items():
        source = importlib.import_module(f"finite_calculus.{module}")
        assert getattr(finite_calculus, name) is getattr(source, name)


def test_exports_stand_in_the_order_of_their_names_within_each_file():
    names = list(exports().items())
    for module in modules():
        mine = [name for name, source in names if source == module]
        assert mine == sorted(mine, key=lambda name: (name[0].islower(), name))


@pytest.mark.parametrize("module", sorted(path.stem for path in PACKAGE.glob("*.py")))
def test_every_file_opens_with_what_it_computes(module: str):
    text = ast.get_docstring(ast.parse((PACKAGE / f"{module}.py").read_text()))
    assert text
    assert text.split("\n")[0].rstrip()[-1] in ".:"


def test_the_package_says_that_it_is_typed():
    assert (PACKAGE / "py.typed").is_file()


def test_the_version_is_a_version():
    assert all(part.isdigit() for part in finite_calculus.__version__.split("."))
