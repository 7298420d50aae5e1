"""Check the Coq library in `proofs/coq` and say what each of its theorems rests on.

The library is compiled and every theorem passed to `Print Assumptions`; an axiom outside `ALLOWED_AXIOMS`,
an unfinished proof or a compile error is a failure, and a missing `coqc` or library is reported as
"not checked".
"""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from proofs.coq_compile import (
    CompileError,
    MissingLibraryError,
    Progress,
    build_directory,
    compile_all,
    coq_version,
    coqc,
)
from proofs.coq_source import LIBRARY, SOURCE, Failure, Theorem, theorems, unproved_commands

# What the proofs may rest on: the classical real numbers of Coq's standard library and what
# MathComp-Analysis's Rstruct adds to make them a MathComp field. Nothing here is ours.
ALLOWED_AXIOMS: Mapping[str, str] = {
    "ClassicalDedekindReals.sig_forall_dec": "decides a countable search; builds Dedekind reals",
    "ClassicalDedekindReals.sig_not_dec": "decides a negation; builds Dedekind reals",
    "FunctionalExtensionality.functional_extensionality_dep": "pointwise equal functions are equal",
    "Classical_Prop.classic": "excluded middle, used by the standard library's real analysis",
    "Epsilon.epsilon_statement": "Hilbert's epsilon, from which Rstruct gives R a choiceType",
}

Status = Literal["checked", "not checked", "failed"]


_MARK = "@@"


@dataclass(frozen=True)
class TheoremReport:
    """The outcome for one theorem. Unless ``each`` was asked for, ``axioms`` is the union over the
    theorems of its file, hence an upper bound for the theorem itself."""

    theorem: Theorem
    status: Status
    axioms: tuple[str, ...]


@dataclass(frozen=True)
class CoqReport:
    """The outcome for the library; ``reason`` says why it is not "checked"."""

    status: Status
    coq_version: str | None
    seconds: float
    theorems: Mapping[str, TheoremReport]
    failures: tuple[Failure, ...] = ()
    reason: str = ""

    @property
    def axioms(self) -> tuple[str, ...]:
        """Every axiom that some theorem rests on."""
        return tuple(sorted({a for t in self.theorems.values() for a in t.axioms}))


def check(
    progress: Progress | None = None,
    *,
    source: Path = SOURCE,
    build_dir: Path | None = None,
    jobs: int = 2,
    each: bool = False,
) -> CoqReport:
    """Compile the library and audit the axioms of every theorem.

    ``build_dir`` keeps compiled files for the next call, which recompiles only what changed;
    ``each`` prints the assumptions of every theorem separately (about a second each) instead of
    once per file. Never raises for a failed proof: the report says what happened.
    """
    say = progress or (lambda _message: None)
    start = time.monotonic()
    statements = theorems(source)
    version = coq_version()

    def report(status: Status, **rest: object) -> CoqReport:
        reports = {k: TheoremReport(t, status, ()) for k, t in statements.items()}
        seconds = time.monotonic() - start
        return CoqReport(status, version, seconds, **{"theorems": reports, **rest})  # type: ignore[arg-type]

    unfinished = tuple(unproved_commands(source))
    if unfinished:
        return report("failed", failures=unfinished, reason=str(unfinished[0]))
    if version is None:
        return report("not checked", reason="coqc is not installed (Debian: apt install coq)")
    try:
        with build_directory(build_dir) as directory:
            compile_all(source, directory, version, jobs, say)
            verdicts = _audit(directory, statements, jobs, each, say)
    except MissingLibraryError as error:
        return report("not checked", reason=str(error))
    except CompileError as error:
        return report("failed", failures=(error.failure,), reason=str(error.failure))
    failures = tuple(_axiom_failures(verdicts))
    status: Status = "failed" if failures else "checked"
    return report(
        status, theorems=verdicts, failures=failures, reason=str(failures[0]) if failures else ""
    )


def _audit(
    directory: Path, statements: Mapping[str, Theorem], jobs: int, each: bool, say: Progress
) -> dict[str, TheoremReport]:
    modules = sorted({t.module for t in statements.values()})
    groups = {m: [k for k, t in statements.items() if t.module == m] for m in modules}
    axioms = _assumptions(directory, _singles(statements) if each else groups, jobs)
    doubtful = [m for m in modules if not each and set(axioms[m]) - set(ALLOWED_AXIOMS)]
    # A file over the list is asked theorem by theorem, so that the failure names the theorem.
    again = [k for m in doubtful for k in groups[m]]
    axioms |= _assumptions(directory, _singles(again), jobs) if again else {}
    say(f"assumptions of {len(statements)} theorems printed")
    return {k: _judge(t, axioms[k if k in axioms else t.module]) for k, t in statements.items()}


def _singles(ids: Iterable[str]) -> dict[str, list[str]]:
    return {name: [name] for name in ids}


def _judge(theorem: Theorem, axioms: tuple[str, ...]) -> TheoremReport:
    bad = set(axioms) - set(ALLOWED_AXIOMS)
    return TheoremReport(theorem, "failed" if bad else "checked", axioms)


def _axiom_failures(reports: Mapping[str, TheoremReport]) -> Iterator[Failure]:
    for name, report in reports.items():
        bad = sorted(set(report.axioms) - set(ALLOWED_AXIOMS))
        if bad:
            file = f"{report.theorem.module}.v"
            yield Failure(file, report.theorem.line, name, f"rests on {', '.join(bad)}")


def _assumptions(
    directory: Path, groups: Mapping[str, list[str]], jobs: int
) -> dict[str, tuple[str, ...]]:
    names = sorted(groups)
    chunks = [part for i in range(jobs) if (part := names[i::jobs])]

    def run(numbered: tuple[int, list[str]]) -> dict[str, tuple[str, ...]]:
        index, part = numbered
        name = f"Audit{index}.v"
        (directory / name).write_text(_audit_source({n: groups[n] for n in part}), encoding="utf-8")
        return _parse_assumptions(coqc(name, directory))

    with ThreadPoolExecutor(max_workers=jobs) as pool:
        results = list(pool.map(run, enumerate(chunks)))
    return {name: axioms for part in results for name, axioms in part.items()}


def _audit_source(groups: Mapping[str, list[str]]) -> str:
    modules = sorted({name.split(".")[0] for ids in groups.values() for name in ids})
    lines = [f"From {LIBRARY} Require {' '.join(modules)}."]
    for number, (group, ids) in enumerate(groups.items()):
        uses = " ".join(f"let _ := @{LIBRARY}.{name} in" for name in ids)
        lines += [
            f"Definition audit{number} := {uses} tt.",
            f'Goal True. idtac "{_MARK} {group}". Abort.',
            f"Print Assumptions audit{number}.",
        ]
    return "\n".join(lines) + "\n"


def _parse_assumptions(output: str) -> dict[str, tuple[str, ...]]:
    """The axioms printed after each mark; a name starts its line and its type is indented."""
    axioms_by_name: dict[str, tuple[str, ...]] = {}
    for block in output.split(f"{_MARK} ")[1:]:
        name, _, rest = block.partition("\n")
        closed = "Closed under the global context"
        lines = [ln for ln in rest.splitlines() if ln and not ln[0].isspace()]
        axioms = {ln.split()[0] for ln in lines if ln != "Axioms:" and ln != closed}
        axioms_by_name[name.strip()] = tuple(sorted(axioms))
    return axioms_by_name


def main() -> int:
    """Print a short report; the exit code is 1 if the check failed."""
    report = check(lambda message: print(message, flush=True))
    print(f"{report.status}: {len(report.theorems)} theorems, Coq {report.coq_version}, "
          f"{report.seconds:.0f} s")  # fmt: skip
    if report.reason:
        print(report.reason)
    for failure in report.failures[1:]:
        print(failure)
    for axiom in report.axioms:
        print(f"  {axiom}: {ALLOWED_AXIOMS.get(axiom, 'NOT ALLOWED')}")
    return 1 if report.status == "failed" else 0


if __name__ == "__main__":
    sys.exit(main())
