"""Check the Coq library in ``proofs/coq`` and say what each of its theorems rests on. The sources
are copied to a build directory, compiled with ``coqc`` in dependency order, and every theorem is
passed to ``Print Assumptions``; an axiom outside :data:`ALLOWED_AXIOMS`, an unfinished proof or a
compile error is a failure, and a missing ``coqc`` or library is reported as "not checked".
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Literal

LIBRARY = "FiniteCalculus"
SOURCE = Path(__file__).parent / "coq"

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
Progress = Callable[[str], None]

_COMMENT = re.compile(r"\(\*.*?\*\)", re.DOTALL)
_STATEMENT = re.compile(r"^(Theorem|Lemma|Corollary)\s+([A-Za-z_][\w']*)", re.MULTILINE)
_REQUIRE = re.compile(rf"^From\s+{LIBRARY}\s+Require(?:\s+(?:Import|Export))?\s+([^.]*)\.", re.M)
_LABEL = r"(?:(?:main|eq|prop|cor|thm|fig|tab):\w+|[UX]\d+)"
_LABELLED = re.compile(rf"({_LABEL}(?:,\s*{_LABEL})*)\s*(?:\([^)]*\))?:?\s+(.*)", re.DOTALL)
_FORBIDDEN = re.compile(
    r"\b(Admitted|admit|give_up|Axioms?|Parameters?|Conjectures?|bypass_check"
    r"|Unset\s+(?:Guard|Positivity|Universe)\s+Checking)\b"
)
_LOCATION = re.compile(
    r'File "\./?([^"]+)", line (\d+), characters [^:]*:\s*\nError:(.*)', re.DOTALL
)
_NO_LIBRARY = re.compile(
    r"Cannot find a physical path[^.]*?prefix\s+(\w+)|Unable to locate library"
)
_MARK = "@@"


@dataclass(frozen=True)
class Theorem:
    """One proved statement: where it is, and the labels and sentence of the comment before it."""

    module: str
    name: str
    kind: str
    line: int
    labels: tuple[str, ...]
    comment: str

    @property
    def id(self) -> str:
        return f"{self.module}.{self.name}"


@dataclass(frozen=True)
class TheoremReport:
    """The outcome for one theorem. Unless ``each`` was asked for, ``axioms`` is the union over the
    theorems of its file, hence an upper bound for the theorem itself."""

    theorem: Theorem
    status: Status
    axioms: tuple[str, ...]


@dataclass(frozen=True)
class Failure:
    """Why a check failed: the file, its line and theorem where known, and the message."""

    file: str
    line: int | None
    theorem: str | None
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}{f' ({self.theorem})' if self.theorem else ''}: {self.message}"


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


class MissingLibraryError(RuntimeError):
    """``coqc`` is installed but a library that the proofs import is not."""


class CompileError(RuntimeError):
    """``coqc`` rejected a file; ``failure`` says where."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def theorems(source: Path = SOURCE) -> dict[str, Theorem]:
    """Every theorem, lemma and corollary of the sources by its id "Module.name", without Coq."""
    found: dict[str, Theorem] = {}
    for file in _sources(source):
        for theorem in _parse(file.stem, file.read_text(encoding="utf-8")):
            if theorem.id in found:
                raise ValueError(
                    f"{file.name}: {theorem.name} is stated twice; rename one of them."
                )
            found[theorem.id] = theorem
    return found


def by_label(source: Path = SOURCE) -> dict[str, tuple[str, ...]]:
    """The ids of the theorems that name each label of the paper in their comment."""
    table: dict[str, list[str]] = {}
    for theorem in theorems(source).values():
        for label in theorem.labels:
            table.setdefault(label, []).append(theorem.id)
    return {label: tuple(ids) for label, ids in sorted(table.items())}


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
    version = _coq_version()

    def report(status: Status, **rest: object) -> CoqReport:
        done = {k: TheoremReport(t, status, ()) for k, t in statements.items()}
        seconds = time.monotonic() - start
        return CoqReport(status, version, seconds, **{"theorems": done, **rest})  # type: ignore[arg-type]

    unfinished = tuple(_forbidden(source))
    if unfinished:
        return report("failed", failures=unfinished, reason=str(unfinished[0]))
    if version is None:
        return report("not checked", reason="coqc is not installed (Debian: apt install coq)")
    try:
        with _build_directory(build_dir) as directory:
            _compile_all(source, directory, version, jobs, say)
            audited = _audit(directory, statements, jobs, each, say)
    except MissingLibraryError as error:
        return report("not checked", reason=str(error))
    except CompileError as error:
        return report("failed", failures=(error.failure,), reason=str(error.failure))
    failures = tuple(_axiom_failures(audited))
    status: Status = "failed" if failures else "checked"
    return report(
        status, theorems=audited, failures=failures, reason=str(failures[0]) if failures else ""
    )


# --- sources -------------------------------------------------------------------------------------


def _sources(source: Path) -> list[Path]:
    files = sorted(source.glob("*.v"))
    if not files:
        raise ValueError(f"`source` must hold .v files; found none in {source}.")
    return files


def _blank(text: str) -> str:
    """The text with its comments replaced by blanks, so that offsets and lines stay put."""
    return _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def _parse(module: str, text: str) -> Iterator[Theorem]:
    comments = {m.end(): m.group()[2:-2] for m in _COMMENT.finditer(text)}
    for match in _STATEMENT.finditer(_blank(text)):
        before = len(text[: match.start()].rstrip())
        comment = " ".join(comments.get(before, "").split())
        labelled = _LABELLED.fullmatch(comment)
        labels = tuple(re.split(r",\s*", labelled.group(1))) if labelled else ()
        line = text.count("\n", 0, match.start()) + 1
        sentence = labelled.group(2) if labelled else comment
        yield Theorem(module, match.group(2), match.group(1), line, labels, sentence)


def _forbidden(source: Path) -> Iterator[Failure]:
    for file in _sources(source):
        text = _blank(file.read_text(encoding="utf-8"))
        for match in _FORBIDDEN.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            name = _enclosing(file, line)
            yield Failure(file.name, line, name, f"`{match.group()}` leaves something unproved")


def _enclosing(file: Path, line: int) -> str | None:
    earlier = [t for t in _parse(file.stem, file.read_text(encoding="utf-8")) if t.line <= line]
    return earlier[-1].id if earlier else None


def _dependencies(files: Iterable[Path]) -> dict[str, set[str]]:
    graph: dict[str, set[str]] = {}
    for file in files:
        requires = _REQUIRE.findall(_blank(file.read_text(encoding="utf-8")))
        graph[file.stem] = {name for names in requires for name in names.split()}
    unknown = set().union(*graph.values()) - set(graph)
    if unknown:
        raise ValueError(f"the sources require {sorted(unknown)}, which {LIBRARY} does not hold.")
    return graph


# --- compilation ---------------------------------------------------------------------------------


def _coq_version() -> str | None:
    if shutil.which("coqc") is None:
        return None
    done = subprocess.run(["coqc", "--print-version"], capture_output=True, text=True, check=False)
    return done.stdout.split()[0] if done.returncode == 0 and done.stdout else None


@contextmanager
def _build_directory(build_dir: Path | None) -> Iterator[Path]:
    if build_dir is not None:
        build_dir.mkdir(parents=True, exist_ok=True)
        yield build_dir
        return
    with tempfile.TemporaryDirectory(prefix="finite-calculus-coq-") as directory:
        yield Path(directory)


def _compile_all(source: Path, directory: Path, version: str, jobs: int, say: Progress) -> None:
    files = {file.stem: file for file in _sources(source)}
    graph = _dependencies(files.values())
    order = TopologicalSorter(graph)
    try:
        order.prepare()
    except CycleError as error:
        raise ValueError(f"the sources require each other in a cycle: {error.args[1]}") from error
    stamps: dict[str, str] = {}
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        running: dict[Future[None], str] = {}
        while order.is_active():
            for name in order.get_ready():
                stamps[name] = _stamp(
                    files[name], version, [stamps[d] for d in sorted(graph[name])]
                )
                running[pool.submit(_compile, files[name], directory, stamps[name], say)] = name
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                future.result()
                order.done(running.pop(future))


def _stamp(file: Path, version: str, below: list[str]) -> str:
    parts = [version.encode(), file.read_bytes(), *(stamp.encode() for stamp in below)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _compile(file: Path, directory: Path, stamp: str, say: Progress) -> None:
    record = directory / f"{file.stem}.stamp"
    compiled = directory / f"{file.stem}.vo"
    if compiled.exists() and record.exists() and record.read_text() == stamp:
        return
    record.unlink(missing_ok=True)
    (directory / file.name).write_bytes(file.read_bytes())
    start = time.monotonic()
    _coqc(file.name, directory)
    record.write_text(stamp)
    say(f"{file.stem} compiled in {time.monotonic() - start:.1f} s")


def _coqc(name: str, directory: Path) -> str:
    command = ["coqc", "-q", "-w", "none", "-Q", ".", LIBRARY, name]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return done.stdout
    output = done.stderr + done.stdout
    missing = _NO_LIBRARY.search(output)
    if missing and missing.group(1) != LIBRARY:
        raise MissingLibraryError(f"a Coq library is missing: {_one_line(output)}")
    located = _LOCATION.search(output)
    if located is None:
        raise CompileError(Failure(name, None, None, _one_line(output)))
    line = int(located.group(2))
    theorem = _enclosing(directory / name, line)
    raise CompileError(Failure(name, line, theorem, _one_line(located.group(3))))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]


# --- axioms --------------------------------------------------------------------------------------


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
        return _parse_assumptions(_coqc(name, directory))

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
    found: dict[str, tuple[str, ...]] = {}
    for block in output.split(f"{_MARK} ")[1:]:
        name, _, rest = block.partition("\n")
        closed = "Closed under the global context"
        lines = [ln for ln in rest.splitlines() if ln and not ln[0].isspace()]
        axioms = {ln.split()[0] for ln in lines if ln != "Axioms:" and ln != closed}
        found[name.strip()] = tuple(sorted(axioms))
    return found


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
