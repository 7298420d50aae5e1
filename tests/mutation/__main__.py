"""`python -m tests.mutation`: hold the tests of the core against every mutant of it.

Exit code 1 if a mutant survives that `equivalent.toml` does not list, or if the list has an entry
that is killed or no longer exists. Verdicts are kept, so that a run takes up where the last stopped.
`--stale` runs no mutant: it lists the summaries that are of other code, and exits with 1 if there are any.
"""

import argparse
import pickle
import signal
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.mutation.journal import Journal, complaints, describe, read_equivalents, summary
from tests.mutation.mutants import Mutant, mutants
from tests.mutation.profile import Profile
from tests.mutation.records import read, stale, write
from tests.mutation.session import Session, Verdict

ROOT = Path(__file__).parents[2]
# Folders of tests, and single files.
FOLDERS = ("autograd", "bad_input", "batching", "bounds")
FILES = (
    "accuracy",
    "axes",
    "certificates",
    "complement",
    "control",
    "defaults",
    "deletion",
    "devices",
    "effective",
    "exhaustive",
    "group_switches",
    "kernels",
    "margin",
    "mixed_types",
    "quantise",
    "readout",
    "regimes",
    "reordering",
    "restoration",
    "rotary",
    "rounding",
    "singles",
    "spans",
    "sparse",
    "structure",
    "switches",
)


@dataclass(frozen=True)
class Project:
    """What is mutated, by which tests it is held, and where verdicts and summaries go."""

    root: Path
    core: Path
    tests: Sequence[str]
    sources: Sequence[str]
    equivalents: Path
    build: Path
    results: Path


CORE = Project(
    root=ROOT,
    core=ROOT / "finite_calculus",
    tests=[
        *(f"tests/{folder}" for folder in FOLDERS),
        *(f"tests/test_{name}.py" for name in FILES),
    ],
    sources=[
        "finite_calculus/*.py",
        "tests/*.py",
        "tests/helpers/*.py",
        *(f"tests/{folder}/**/*.py" for folder in FOLDERS),
        "proofs/**/*.py",
    ],
    equivalents=Path(__file__).with_name("equivalent.toml"),
    build=ROOT / "build" / "mutation",
    results=ROOT / "results" / "mutation.json",
)


def main(arguments: Sequence[str] | None = None, project: Project = CORE) -> int:
    """Run the command line; returns the exit code."""
    options = _parser().parse_args(arguments)
    files = _files(project, options.files)
    if options.stale:
        outdated = stale(project.results, project.core, project.equivalents)
        print(*outdated, f"{len(outdated)} stale", sep="\n")
        return 1 if outdated else 0
    all_mutants = [mutant for file in files for mutant in mutants(project.core / file)]
    if options.list:
        print(*map(describe, all_mutants), f"{len(all_mutants)} mutants", sep="\n")
        return 0
    if options.replay:
        all_mutants = [mutant for mutant in all_mutants if mutant.id == options.replay]
        print(*map(describe, all_mutants), sep="\n")
    verdicts = _verdicts(project, all_mutants, options)
    return _report(project, verdicts, set() if options.replay else set(files))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument(
        "--files", nargs="*", help="only these, of which those outside the core are passed over"
    )
    parser.add_argument("--jobs", type=int, default=1, help="mutants tried at once")
    parser.add_argument("--budget", type=float, default=120.0, help="seconds of tests per mutant")
    parser.add_argument("--fresh", action="store_true", help="forget the verdicts of earlier runs")
    parser.add_argument("--list", action="store_true", help="list the mutants and stop")
    parser.add_argument(
        "--stale", action="store_true", help="list summaries of other code and stop"
    )
    parser.add_argument("--replay", metavar="ID", help="try one mutant again")
    return parser


def _files(project: Project, chosen: list[str] | None) -> list[str]:
    """Names of the files of the core: all, or those among the chosen paths."""
    names = sorted(path.name for path in project.core.glob("*.py"))
    if chosen is None:
        return names
    paths = {project.core / file if "/" not in file else project.root / file for file in chosen}
    return [name for name in names if project.core / name in paths]


def _verdicts(
    project: Project, all_mutants: list[Mutant], options: argparse.Namespace
) -> dict[Mutant, Verdict]:
    sources = [path for pattern in project.sources for path in project.root.glob(pattern)]
    path = project.build / "journal.jsonl"
    if options.fresh:
        path.unlink(missing_ok=True)
    journal = Journal.open(path, sources, project.root)
    again = bool(options.replay)
    verdicts = (
        {} if again else {m: v for m in all_mutants if (v := journal.verdict(m, options.budget))}
    )
    remaining = [mutant for mutant in all_mutants if mutant not in verdicts]
    print(f"{len(all_mutants)} mutants, {len(verdicts)} verdicts known")

    def work(session: Session) -> None:
        profile = _profile(session, journal, project, options.jobs)
        for mutant, verdict in verdicts.items():
            session.remember(mutant, verdict)
        results = session.verdicts(remaining, profile, jobs=options.jobs, budget=options.budget)
        for count, (mutant, verdict) in enumerate(results, 1):
            journal.add(mutant, verdict, options.budget)
            verdicts[mutant] = verdict
            _progress(count, len(remaining), mutant, verdict)

    if remaining:
        Session(project.root, project.core, project.tests).run(work)
    return {mutant: verdicts[mutant] for mutant in all_mutants}


def _profile(session: Session, journal: Journal, project: Project, jobs: int) -> Profile:
    """Durations and covered lines of the tests, kept for each file of tests until a source changes."""
    paths = {
        file: project.build / f"{_flat(file)}-{journal.without_other_tests(file)}.pickle"
        for file in sorted({test.partition("::")[0] for test in session.items})
    }
    missing = [file for file, path in paths.items() if not path.exists()]
    print(f"Running {len(missing)} files of tests once, unmutated ...", flush=True)
    for file, profile in session.profiles(missing, jobs):
        project.build.mkdir(parents=True, exist_ok=True)
        paths[file].write_bytes(pickle.dumps(profile))
    whole = Profile()
    for path in paths.values():
        whole.add(pickle.loads(path.read_bytes()))
    return whole


def _flat(file: str) -> str:
    """The path of a test in one word: two folders may hold files of one name."""
    return "-".join(Path(file).with_suffix("").parts)


def _progress(count: int, total: int, mutant: Mutant, verdict: Verdict) -> None:
    place = f"{mutant.file}:{mutant.lines[0]}"
    print(
        f"[{count}/{total}] {verdict.outcome:8} {verdict.seconds:6.1f} s {place} {verdict.test}",
        flush=True,
    )
    if verdict.outcome == "survived":
        print(describe(mutant), flush=True)


def _report(project: Project, verdicts: dict[Mutant, Verdict], files: set[str]) -> int:
    equivalents = read_equivalents(project.equivalents)
    records = read(project.results)
    for file in sorted(files):
        own = {m: verdict for m, verdict in verdicts.items() if m.file == file}
        if own:
            records[file] = counts = summary(file, own, equivalents)
            print(
                f"{file:16} {counts['mutants']:5} mutants, {counts['killed']:5} killed, "
                f"{counts['timeout']:3} timed out, {counts['equivalent']:3} equivalent, "
                f"{len(counts['surviving']):3} survive"
            )
    if files:
        existing = {path.name for path in project.core.glob("*.py")}
        current = {file: record for file, record in records.items() if file in existing}
        write(project.results, current)
    wrong = complaints(verdicts, equivalents, files)
    print(*wrong, f"{len(verdicts)} mutants, {len(wrong)} complaints", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))  # and the children with it
    sys.exit(main())
