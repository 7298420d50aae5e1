"""The verdicts that are already known, the reviewed list of equivalent mutants, and the summaries."""

import hashlib
import json
import tomllib
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.mutation.mutants import Mutant
from tests.mutation.session import Verdict

Key = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class Equivalent:
    """A reviewed mutant that no test can tell from the original, and why."""

    file: str
    function: str
    original: str
    mutated: str
    reason: str
    occurrence: int = 0

    @property
    def key(self) -> Key:
        return self.file, self.function, self.original, self.mutated, self.occurrence


def key_of(mutant: Mutant) -> Key:
    """What identifies a mutant in the reviewed list."""
    return mutant.file, mutant.function, mutant.original, mutant.mutated, mutant.occurrence


def read_equivalents(path: Path) -> dict[Key, Equivalent]:
    """The reviewed list; each entry once, each with a reason."""
    entries = tomllib.loads(path.read_text()).get("equivalent", []) if path.exists() else []
    equivalents = [Equivalent(**entry) for entry in entries]
    by_key = {equivalent.key: equivalent for equivalent in equivalents}
    if len(by_key) != len(equivalents) or not all(
        equivalent.reason.strip() for equivalent in equivalents
    ):
        raise ValueError(f"`{path}` must list each mutant once, with a reason.")
    return by_key


@dataclass
class Journal:
    """Verdicts in a file of JSON lines, each valid as long as the sources it was reached with.

    A kill stands while the mutated file, the test that killed and the helper modules in its folder
    are the same; a survival stands only while nothing has changed.
    """

    path: Path
    hashes: dict[str, str]
    records: dict[str, dict[str, Any]] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path, sources: Iterable[Path], root: Path) -> "Journal":
        """Read what is known; `sources` are the files that verdicts depend on."""
        data = {str(p.relative_to(root)): p.read_bytes() for p in sorted(sources)}
        hashes = {name: hashlib.sha256(text).hexdigest()[:16] for name, text in data.items()}
        lines = path.read_text().splitlines() if path.exists() else []
        records = {record["id"]: record for record in map(json.loads, lines)}
        return cls(path, hashes, records)

    def verdict(self, mutant: Mutant, budget: float) -> Verdict | None:
        """The verdict on a mutant, if it was reached with the sources at hand."""
        record = self.records.get(mutant.id)
        if record is None:
            return None
        survived = record["outcome"] == "survived"
        if survived and record["budget"] < budget:
            return None
        if record["sources"] != self._sources(mutant, record["outcome"], record["test"]):
            return None
        return Verdict(record["outcome"], record["test"], record["seconds"])

    def add(self, mutant: Mutant, verdict: Verdict, budget: float) -> None:
        """Append a verdict."""
        record = {
            "id": mutant.id,
            "file": mutant.file,
            "line": mutant.lines[0],
            "function": mutant.function,
            "operator": mutant.operator,
            "original": mutant.original,
            "mutated": mutant.mutated,
            "outcome": verdict.outcome,
            "test": verdict.test,
            "seconds": verdict.seconds,
            "budget": budget,
            "sources": self._sources(mutant, verdict.outcome, verdict.test),
        }
        self.records[mutant.id] = record
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")

    def without_other_tests(self, file: str) -> str:
        """Hash of all sources except those of other tests."""
        own = {n: h for n, h in self.hashes.items() if n == file or not Path(n).match("test_*.py")}
        return _digest(own)

    def _sources(self, mutant: Mutant, outcome: str, test: str) -> str:
        if outcome == "survived":
            return _digest(self.hashes)
        file = test.partition("::")[0]
        names = {name for name in self.hashes if name.endswith(f"/{mutant.file}")}
        names |= {file, *self._helpers(file)}
        return " ".join(self.hashes.get(name, "") for name in sorted(names))

    def _helpers(self, file: str) -> list[str]:
        """Modules in a test's folder, and below it, that are no tests."""
        folder = Path(file).parent
        inside = [name for name in self.hashes if Path(name).is_relative_to(folder)]
        return [name for name in inside if not Path(name).match("test_*.py")]


def identity(mutants: Iterable[Mutant]) -> str:
    """What tells the mutants of a file from those of any other version of it."""
    return hashlib.sha256("\n".join(sorted(m.id for m in mutants)).encode()).hexdigest()[:16]


def _digest(hashes: dict[str, str]) -> str:
    return hashlib.sha256(json.dumps(hashes).encode()).hexdigest()[:16]


def summary(
    file: str, verdicts: dict[Mutant, Verdict], equivalents: dict[Key, Equivalent]
) -> dict[str, Any]:
    """Counts of one file, and its survivors that nobody has reviewed."""
    outcomes = Counter(verdict.outcome for verdict in verdicts.values())
    lasting = [m for m, verdict in verdicts.items() if verdict.outcome == "survived"]
    return {
        "file": file,
        "of": identity(verdicts),
        "mutants": len(verdicts),
        "killed": outcomes["killed"],
        "timeout": outcomes["timeout"],
        "equivalent": sum(key_of(mutant) in equivalents for mutant in lasting),
        "surviving": [
            f"{m.id} {m.function}: {m.original} => {m.mutated}"
            for m in lasting
            if key_of(m) not in equivalents
        ],
        "operators": dict(Counter(m.operator for m in verdicts).most_common()),
        "killing_tests": dict(
            Counter(v.test.partition("[")[0] for v in verdicts.values() if v.test).most_common()
        ),
        "seconds": round(sum(verdict.seconds for verdict in verdicts.values()), 1),
    }


def complaints(
    verdicts: dict[Mutant, Verdict], equivalents: dict[Key, Equivalent], files: set[str]
) -> list[str]:
    """Survivors that are not listed, and entries of the list that are killed or gone."""
    lines = []
    for mutant, verdict in verdicts.items():
        is_listed = key_of(mutant) in equivalents
        if verdict.outcome == "survived" and not is_listed:
            lines.append(f"survives: {describe(mutant)}")
        if verdict.outcome != "survived" and is_listed:
            lines.append(f"listed as equivalent, but killed by {verdict.test}: {describe(mutant)}")
    existing = {key_of(mutant) for mutant in verdicts}
    for key, entry in equivalents.items():
        if entry.file in files and key not in existing:
            lines.append(
                f"listed as equivalent, but gone: {entry.file} {entry.function}: {entry.original}"
            )
    return lines


def describe(mutant: Mutant) -> str:
    """A mutant on three lines."""
    where = f"{mutant.id} {mutant.file}:{mutant.lines[0]} {mutant.function} ({mutant.operator})"
    return f"{where}\n    - {mutant.original}\n    + {mutant.mutated}"
