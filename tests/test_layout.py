"""How the tests are laid out: what several of them need lies in a helper module, not in a test."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).parent


def imported_tests(source: str) -> list[str]:
    """Dotted names of the test modules that a source imports, or of tests in them."""
    names = (name for node in ast.walk(ast.parse(source)) for name in _imported_names(node))
    return [name for name in names if any(part.startswith("test_") for part in name.split("."))]


def _imported_names(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name.startswith("tests."))
    elif isinstance(node, ast.ImportFrom) and (
        node.level or f"{node.module}.".startswith("tests.")
    ):
        yield from (f"{node.module}.{alias.name}" for alias in node.names)


@pytest.mark.parametrize(
    "source",
    [
        "from tests.test_rounding import points",
        "from tests.search.test_score import rows",
        "import tests.test_rounding",
        "from tests import test_rounding",
        "from . import test_rounding",
        "from .test_rounding import points",
        "def f():\n    from tests.test_rounding import points",
    ],
)
def test_every_spelling_of_an_import_is_recognised(source: str):
    assert len(imported_tests(source)) == 1


def test_helpers_and_other_packages_may_be_imported():
    assert (
        imported_tests("from tests.helpers.tensors import draw\nimport numpy.test_utilities") == []
    )


def test_no_test_imports_a_test_module():
    imports = {
        str(path.relative_to(TESTS)): names
        for path in sorted(TESTS.rglob("*.py"))
        if (names := imported_tests(path.read_text()))
    }
    assert imports == {}
