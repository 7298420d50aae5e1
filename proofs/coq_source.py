"""The sources in `proofs/coq`, read without Coq: theorems, what they require, and what is left unproved."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

LIBRARY = "FiniteCalculus"
SOURCE = Path(__file__).parent / "coq"


_COMMENT = re.compile(r"\(\*.*?\*\)", re.DOTALL)
_STATEMENT = re.compile(r"^(Theorem|Lemma|Corollary)\s+([A-Za-z_][\w']*)", re.MULTILINE)
_REQUIRE = re.compile(rf"^From\s+{LIBRARY}\s+Require(?:\s+(?:Import|Export))?\s+([^.]*)\.", re.M)
_LABEL = r"(?:(?:main|eq|prop|cor|thm|fig|tab):\w+|[UX]\d+)"
_LABELLED = re.compile(rf"({_LABEL}(?:,\s*{_LABEL})*)\s*(?:\([^)]*\))?:?\s+(.*)", re.DOTALL)
_FORBIDDEN = re.compile(
    r"\b(Admitted|admit|give_up|Axioms?|Parameters?|Conjectures?|bypass_check"
    r"|Unset\s+(?:Guard|Positivity|Universe)\s+Checking)\b"
)


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
class Failure:
    """Why a check failed: the file, its line and theorem where known, and the message."""

    file: str
    line: int | None
    theorem: str | None
    message: str

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{place}{f' ({self.theorem})' if self.theorem else ''}: {self.message}"


def theorems(source: Path = SOURCE) -> dict[str, Theorem]:
    """Every theorem, lemma and corollary of the sources by its id "Module.name", without Coq."""
    by_id: dict[str, Theorem] = {}
    for file in source_files(source):
        for theorem in _parse(file.stem, file.read_text(encoding="utf-8")):
            if theorem.id in by_id:
                raise ValueError(
                    f"{file.name}: {theorem.name} is stated twice; rename one of them."
                )
            by_id[theorem.id] = theorem
    return by_id


def by_label(source: Path = SOURCE) -> dict[str, tuple[str, ...]]:
    """The ids of the theorems that name each label of the paper in their comment."""
    table: dict[str, list[str]] = {}
    for theorem in theorems(source).values():
        for label in theorem.labels:
            table.setdefault(label, []).append(theorem.id)
    return {label: tuple(ids) for label, ids in sorted(table.items())}


def source_files(source: Path) -> list[Path]:
    """The .v files of a directory, of which there must be one."""
    files = sorted(source.glob("*.v"))
    if not files:
        raise ValueError(f"`source` must hold .v files; found none in {source}.")
    return files


def _without_comments(text: str) -> str:
    """The text with its comments replaced by blanks, so that offsets and lines stay put."""
    return _COMMENT.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def _parse(module: str, text: str) -> Iterator[Theorem]:
    comments = {m.end(): m.group()[2:-2] for m in _COMMENT.finditer(text)}
    for match in _STATEMENT.finditer(_without_comments(text)):
        before = len(text[: match.start()].rstrip())
        comment = " ".join(comments.get(before, "").split())
        labelled = _LABELLED.fullmatch(comment)
        labels = tuple(re.split(r",\s*", labelled.group(1))) if labelled else ()
        line = text.count("\n", 0, match.start()) + 1
        sentence = labelled.group(2) if labelled else comment
        yield Theorem(module, match.group(2), match.group(1), line, labels, sentence)


def unproved_commands(source: Path) -> Iterator[Failure]:
    """Axioms, admitted proofs and switched-off checks, which Coq itself would accept."""
    for file in source_files(source):
        text = _without_comments(file.read_text(encoding="utf-8"))
        for match in _FORBIDDEN.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            name = enclosing_theorem(file, line)
            yield Failure(file.name, line, name, f"`{match.group()}` leaves something unproved")


def enclosing_theorem(file: Path, line: int) -> str | None:
    """The id of the last theorem that is stated at or before a line."""
    earlier = [t for t in _parse(file.stem, file.read_text(encoding="utf-8")) if t.line <= line]
    return earlier[-1].id if earlier else None


def dependencies(files: Iterable[Path]) -> dict[str, set[str]]:
    """The modules of the library that each file requires; others than the files given are an error."""
    graph: dict[str, set[str]] = {}
    for file in files:
        requires = _REQUIRE.findall(_without_comments(file.read_text(encoding="utf-8")))
        graph[file.stem] = {name for names in requires for name in names.split()}
    unknown = set().union(*graph.values()) - set(graph)
    if unknown:
        raise ValueError(f"the sources require {sorted(unknown)}, which {LIBRARY} does not hold.")
    return graph
