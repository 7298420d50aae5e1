"""The mutation runner on a toy package: mutants are found, killed, survive and are excused as they should."""

import json
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.__main__ import CORE
from tests.mutation.journal import Journal, key_of, read_equivalents
from tests.mutation.mutants import Mutant, mutants
from tests.mutation.records import read, write
from tests.mutation.session import Verdict

ROOT = Path(__file__).parents[1]
KEPT = read(CORE.results)  # which holds them to their digest

STEPS = '''"""Two functions."""

STEP = 2


def up(x: int) -> int:
    """The first number from x in steps that is at least ten."""
    while x < 10:
        x += STEP
    return x


def magnitude(x: int) -> int:
    if x > 100:
        raise ValueError(f"`x` must be at most {100 + 0}; got {x}.")
    return abs(x) if x < 0 else x
'''

CHECKS = """import pytest
from toy.steps import magnitude, up


@pytest.mark.parametrize(("x", "y"), [(0, 10), (1, 11), (9, 11), (10, 10)])
def test_up(x, y):
    assert up(x) == y


def test_magnitude():
    assert [magnitude(x) for x in (-2, -1, 0, 1, 100)] == [2, 1, 0, 1, 100]
    with pytest.raises(ValueError, match="at most"):
        magnitude(101)
"""

# |x| = x at zero, whichever side of the comparison it is on.
EQUIVALENT = {
    "return abs(x) if x < 0 else x => return abs(x) if x <= 0 else x",
    "return abs(x) if x < 0 else x => return abs(x) if x < 1 else x",
}


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    (tmp_path / "toy").mkdir()
    (tmp_path / "toy" / "__init__.py").touch()
    (tmp_path / "toy" / "steps.py").write_text(STEPS)
    (tmp_path / "test_toy.py").write_text(CHECKS)
    return tmp_path


def mutants_of(toy: Path) -> list[Mutant]:
    return mutants(toy / "toy" / "steps.py")


def entries(reviewed: list[Mutant]) -> str:
    """Entries of the reviewed list."""
    names = ("file", "function", "original", "mutated", "occurrence")
    return "\n".join(
        "[[equivalent]]\n"
        + "\n".join(f"{n} = {json.dumps(v)}" for n, v in zip(names, key_of(m), strict=True))
        + '\nreason = "said so"\n'
        for m in reviewed
    )


def run(toy: Path, *options: str) -> subprocess.CompletedProcess:
    """The command line on the toy package, in a process of its own."""
    code = f"""if True:
        import sys
        from pathlib import Path
        from tests.mutation.__main__ import Project, main
        toy = Path({str(toy)!r})
        project = Project(toy, toy / "toy", ["test_toy.py"], ["toy/*.py", "*.py"],
                          toy / "equivalent.toml", toy / "build", toy / "mutation.json")
        sys.exit(main({list(options)!r}, project))
    """
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def change_of(mutant: Mutant) -> str:
    return f"{mutant.original} => {mutant.mutated}"


def test_mutants_are_found_and_messages_are_not_mutated(toy: Path):
    changes = Counter(map(change_of, mutants_of(toy)))
    assert set(changes.values()) == {1}
    assert {
        "STEP = 2 => STEP = 3",
        "x < 10 => x <= 10",
        "x < 10 => x >= 10",
        "x < 10 => x < 9",
        "x += STEP => pass",
        "return x => return None",
        "return abs(x) if x < 0 else x => return abs(x) if x < -1 else x",
    } | EQUIVALENT <= set(changes)
    assert not [change for change in changes if "at most" in change.partition(" => ")[2]]


def test_every_mutant_is_a_program_with_as_many_lines(toy: Path):
    source = STEPS.encode()
    for mutant in mutants_of(toy):
        mutated = mutant.apply(source)
        compile(mutated, "toy", "exec")
        assert mutated != source
        assert mutated.count(b"\n") == source.count(b"\n")


def test_the_identity_of_a_mutant_survives_a_move_of_its_lines(toy: Path):
    before = [mutant.id for mutant in mutants_of(toy)]
    (toy / "toy" / "steps.py").write_text(STEPS.replace("STEP = 2", "\n\n# moved\nSTEP = 2"))
    assert [mutant.id for mutant in mutants_of(toy)] == before
    assert len(set(before)) == len(before)


def test_survivors_are_reported_and_excused_only_by_the_reviewed_list(toy: Path):
    outcome = run(toy)
    assert outcome.returncode == 1, outcome.stderr
    record = read(toy / "mutation.json")["steps.py"]
    assert {line.partition(": ")[2] for line in record["surviving"]} == EQUIVALENT
    assert record["mutants"] == len(mutants_of(toy))
    assert record["killed"] + record["timeout"] == record["mutants"] - len(EQUIVALENT)
    assert record["timeout"] > 0  # without its last line the loop does not end

    harmless = [mutant for mutant in mutants_of(toy) if change_of(mutant) in EQUIVALENT]
    (toy / "equivalent.toml").write_text(entries(harmless))
    excused = run(toy)
    assert excused.returncode == 0, excused.stdout
    assert f"{len(mutants_of(toy))} verdicts known" in excused.stdout

    (toy / "equivalent.toml").write_text(entries(mutants_of(toy)))
    killed = run(toy)
    assert killed.returncode == 1
    assert killed.stdout.count("but killed by") == len(mutants_of(toy)) - len(harmless)

    stale = entries(harmless) + entries(harmless[:1]).replace("abs", "round")
    (toy / "equivalent.toml").write_text(stale)
    assert "but gone: steps.py magnitude" in run(toy).stdout


def test_a_replay_shows_one_mutant_and_its_verdict(toy: Path):
    (mutant_of_step,) = (
        mutant for mutant in mutants_of(toy) if change_of(mutant) == "STEP = 2 => STEP = 3"
    )
    outcome = run(toy, "--replay", mutant_of_step.id)
    assert outcome.returncode == 0, outcome.stderr
    assert "killed" in outcome.stdout
    assert "test_toy.py::test_up" in outcome.stdout  # the test that failed, after a new import
    assert "+ STEP = 3" in outcome.stdout


@pytest.mark.parametrize(
    ("changed", "outdated"),
    [
        ("checks/table.py", True),
        ("checks/test_toy.py", True),
        ("toy/steps.py", True),
        ("checks/test_other.py", False),
        ("others/table.py", False),
    ],
)
def test_a_kill_is_kept_until_its_test_or_a_helper_of_it_changes(
    changed: str, outdated: bool, toy: Path
):
    files = ["checks/table.py", "checks/test_toy.py", "checks/test_other.py", "others/table.py"]
    paths = [toy / name for name in (*files, "toy/steps.py")]
    for path in paths[:-1]:
        path.parent.mkdir(exist_ok=True)
        path.write_text("x = 1\n")
    mutant, kill = mutants_of(toy)[0], Verdict("killed", "checks/test_toy.py::test_up", 1.0)
    Journal.open(toy / "journal.jsonl", paths, toy).add(mutant, kill, 1.0)
    assert Journal.open(toy / "journal.jsonl", paths, toy).verdict(mutant, 1.0) == kill
    (toy / changed).write_text((toy / changed).read_text() + "y = 2\n")
    again = Journal.open(toy / "journal.jsonl", paths, toy).verdict(mutant, 1.0)
    assert (again is None) == outdated


def test_a_reviewed_list_needs_reasons_and_no_repetition(toy: Path):
    path = toy / "equivalent.toml"
    path.write_text(entries(mutants_of(toy)[:2]))
    assert len(read_equivalents(path)) == 2
    for wrong in (
        entries(mutants_of(toy)[:1] * 2),
        entries(mutants_of(toy)[:1]).replace("said so", " "),
    ):
        path.write_text(wrong)
        with pytest.raises(ValueError, match="each mutant once, with a reason"):
            read_equivalents(path)


def test_tests_that_fail_unmutated_are_refused(toy: Path):
    (toy / "test_toy.py").write_text(CHECKS.replace("(0, 10)", "(0, 9)"))
    outcome = run(toy)
    assert outcome.returncode not in (0, None)
    (message,) = (line for line in outcome.stderr.splitlines() if "got a failure of" in line)
    assert "The tests must pass without a mutation" in message
    assert message.endswith("test_toy.py::test_up[0-9].")  # wherever pytest sees its root


@pytest.mark.parametrize("file", KEPT)
def test_a_kept_summary_is_complete_and_no_mutant_survives_unreviewed(file: str):
    record = KEPT[file]
    assert record["surviving"] == []
    total = record["killed"] + record["timeout"] + record["equivalent"]
    assert total == record["mutants"] == sum(record["operators"].values()) > 0


def test_damaged_summaries_are_refused(tmp_path: Path):
    path = tmp_path / "mutation.json"
    write(path, KEPT)
    assert read(path) == KEPT
    sound = path.read_text()
    for text in ("", "[]", "{}", sound.replace('"timeout": 0', '"timeout": 1', 1)):
        path.write_text(text)
        with pytest.raises(ValueError, match="must hold summaries"):
            read(path)


def test_summaries_of_other_code_are_listed_as_stale(toy: Path):
    missing = run(toy, "--stale")
    assert missing.returncode == 1
    assert "steps.py: there is no summary" in missing.stdout
    assert run(toy).returncode == 1  # the equivalent mutants are not listed
    assert (run(toy, "--stale").returncode, run(toy, "--stale").stdout) == (0, "0 stale\n")
    (toy / "toy" / "steps.py").write_text(STEPS.replace("STEP = 2", "STEP = 5"))
    changed = run(toy, "--stale")
    assert changed.returncode == 1
    assert "--files steps.py" in changed.stdout
    (toy / "toy" / "steps.py").rename(toy / "toy" / "others.py")
    assert "steps.py: nothing has this name now" in run(toy, "--stale").stdout


def test_a_reviewed_mutant_that_is_gone_is_stale(toy: Path):
    (toy / "equivalent.toml").write_text(entries(mutants_of(toy)[:1]))
    (toy / "toy" / "steps.py").write_text("STEP = 7\n")
    assert "is reviewed in equivalent.toml, but gone" in run(toy, "--stale").stdout
