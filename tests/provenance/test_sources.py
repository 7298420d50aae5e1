"""Which code counts: exactly the reachable sources, and of them only what a computer reads."""

import ast
import importlib
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from finite_calculus.harness.identity import study_sources
from finite_calculus.provenance import sources
from finite_calculus.provenance.sources import reachable, source_digests, syntax
from finite_calculus.studies.joint_kv import STUDY
from tests.helpers.toy_study import STUDY as TOY

FILES = {
    "__init__.py": "from shop.till import pay as pay\nfrom shop.window import show as show\n",
    "till.py": '"""Money."""\nfrom shop.coins import PENNY\n\n\ndef pay():\n    return PENNY\n',
    "coins.py": "PENNY = 1\n",
    "window.py": "import json\n\n\ndef show():\n    return json.dumps([])\n",
    "clerk.py": (
        "from shop import pay\n\n\nclass Clerk:\n    def serve(self):\n        return help_out()\n\n"
        "    def chat(self):\n        from shop.gossip import talk\n        return talk()\n\n\n"
        "def help_out():\n    return pay()\n"
    ),
    "gossip/__init__.py": "from .topics import talk\n",
    "gossip/topics.py": "def talk():\n    return 'weather'\n",
}


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of a stranger."""
    for name, text in FILES.items():
        path = tmp_path / "shop" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sources, "OURS", ("shop",))
    _forget()
    yield tmp_path / "shop"
    _forget()
    sys.modules.pop("shop", None)


def _forget() -> None:
    sources._path.cache_clear()
    sources._tree.cache_clear()
    importlib.invalidate_caches()


def test_a_name_that_a_package_hands_on_leads_to_its_home(shop: Path) -> None:
    assert reachable({"shop.clerk": ["Clerk.serve"]}) == ("shop.coins", "shop.till")


def test_an_import_inside_a_function_and_a_relative_one_count(shop: Path) -> None:
    assert reachable({"shop.clerk": ["Clerk.chat"]}) == ("shop.gossip.topics",)
    assert reachable({"shop.gossip": None}) == ("shop.gossip", "shop.gossip.topics")


@pytest.mark.parametrize(
    ("file", "before", "after", "counts"),
    [
        ("coins.py", "1", "2", True),
        ("till.py", "Money", "Wealth", False),
        ("till.py", "return PENNY", "return PENNY  # change", False),
        ("clerk.py", "return pay()", "return pay() + 1", True),
        ("clerk.py", "return talk()", "return talk() * 2", False),
        ("gossip/topics.py", "weather", "prices", False),
        ("window.py", "[]", "[1]", False),
    ],
)
def test_an_edit_counts_if_it_can_change_the_result(
    shop: Path, file: str, before: str, after: str, counts: bool
) -> None:
    roots = {"shop.clerk": ["Clerk.serve"]}
    first = source_digests(roots)
    (shop / file).write_text(FILES[file].replace(before, after))
    _forget()
    assert (source_digests(roots) != first) is counts


def test_what_a_method_takes_from_its_own_class_counts(shop: Path) -> None:
    file, roots = shop / "clerk.py", {"shop.clerk": ["Clerk.serve"]}
    text = (
        FILES["clerk.py"]
        .replace("return help_out()", "return self.wage")
        .replace("    def", "    wage = 1\n    def", 1)
    )
    digests = set()
    for wage in ("wage = 1", "wage = 2"):
        file.write_text(text.replace("wage = 1", wage))
        _forget()
        digests.add(str(source_digests(roots)))
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("TILL = {}\nTILL['coins'] = 1\n", "TILL = {}\nTILL['coins'] = 2\n"),
        ("TILL = []\nTILL.append(1)\n", "TILL = []\nTILL.append(2)\n"),
        ("if True:\n    TILL = 1\n", "if True:\n    TILL = 2\n"),
        ("for TILL in (1,):\n    pass\n", "for TILL in (2,):\n    pass\n"),
        ("@print\ndef hook():\n    return 1\n", "@print\ndef hook():\n    return 2\n"),
        ("class Till: pass\nTill.size = 1\n", "class Till: pass\nTill.size = 2\n"),
    ],
)
@pytest.mark.parametrize("file", ["clerk.py", "__init__.py"])
def test_a_statement_with_an_effect_counts_wherever_it_stands(
    shop: Path, file: str, before: str, after: str
) -> None:
    """In the study's own module, and in a package that is only passed through."""
    digests = []
    for words in (before, after):
        (shop / file).write_text(FILES[file] + words)
        _forget()
        digests.append(source_digests({"shop.clerk": ["Clerk.serve"]}))
    assert digests[0] != digests[1]


def test_a_definition_that_does_not_exist_is_refused(shop: Path) -> None:
    with pytest.raises(ValueError, match=r"shop\.clerk has no Clerk\.sleep"):
        source_digests({"shop.clerk": ["Clerk.sleep"]})


def test_syntax_ignores_layout_and_docstrings() -> None:
    one = ast.parse('def f(x):\n    """Twice."""\n    return 2 * x\n')
    other = ast.parse("def f(x): return (2*x)")
    assert syntax(one) == syntax(other)
    assert syntax(one) != syntax(ast.parse("def f(x): return 3 * x"))


@pytest.fixture(scope="module")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copies of our packages."""
    folder = tmp_path_factory.mktemp("copies")
    for name in sources.OURS:
        origin = Path(str(importlib.import_module(name).__file__)).parent
        ignored = shutil.ignore_patterns("*.safetensors", "__pycache__", "*.v")
        shutil.copytree(origin, folder / name, ignore=ignored)
    return folder


@pytest.fixture
def edit(copies: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., dict[str, str]]]:
    """Add a line to some of the copies; returns the digest of the joint study's sources."""

    def path_of(module: str) -> Path | None:
        stem = copies.joinpath(*module.split("."))
        paths = (stem.with_suffix(".py"), stem / "__init__.py")
        return next((path for path in paths if path.is_file()), None)

    def digest_with(*files: str) -> dict[str, str]:
        before = {copies / file: (copies / file).read_text() for file in files}
        for path, text in before.items():
            path.write_text(text + "\nchanged = 1\n")
        sources._tree.cache_clear()
        try:
            return study_sources(STUDY)
        finally:
            for path, text in before.items():
                path.write_text(text)

    monkeypatch.setattr(sources, "_path", path_of)
    yield digest_with
    sources._tree.cache_clear()


def test_code_that_can_change_a_record_voids_a_run(edit: Callable[..., dict[str, str]]) -> None:
    before = edit()
    for file in (
        "finite_calculus/joint.py",
        "finite_calculus/models/edits/replace.py",
        "finite_calculus/studies/joint_kv/predictors.py",
        "finite_calculus/studies/joint_kv/settings.py",
        "finite_calculus/studies/joint_kv/rows.py",
        "finite_calculus/tasks/synthetic.py",
        "finite_calculus/harness/rows.py",
    ):
        assert edit(file) != before, file


def test_the_text_of_a_table_voids_no_run(edit: Callable[..., dict[str, str]]) -> None:
    files = (
        "finite_calculus/studies/joint_kv/report.py",
        "finite_calculus/studies/joint_kv/replay.py",
        "finite_calculus/harness/summary.py",
        "finite_calculus/harness/status.py",
        "finite_calculus/cli/studies.py",
        "finite_calculus/search/steering.py",
        "proofs/ledger.py",
    )
    assert edit(*files) == edit()


def test_sources_of_a_third_party_count() -> None:
    roots = {"tests.helpers.toy_study": ["Toy.run"]}
    assert "tests.helpers.toy_study.draws" in reachable(roots, also=("tests",))
    assert study_sources(TOY) != study_sources(STUDY)
