"""What is known of the tests before any mutation: how long each takes and which lines it executes."""

from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.mutation.mutants import Mutant


@dataclass
class Profile:
    """The processor time of each test, which tests execute a line of a file, and what they import."""

    seconds: dict[str, float] = field(default_factory=dict)
    tests: dict[tuple[str, int], set[str]] = field(default_factory=lambda: defaultdict(set))
    modules: set[str] = field(default_factory=set)

    def add(self, other: "Profile") -> None:
        """Take up what is known of other tests."""
        self.seconds.update(other.seconds)
        self.modules |= other.modules
        for line, tests in other.tests.items():
            self.tests[line] |= tests

    def paths(self, file: str) -> dict[str, frozenset[int]]:
        """The lines of a file that each test executes."""
        lines: dict[str, set[int]] = defaultdict(set)
        for (name, line), tests in self.tests.items():
            for test in tests if name == file else ():
                lines[test].add(line)
        return {test: frozenset(numbers) for test, numbers in lines.items()}

    def covering(self, mutant: Mutant) -> set[str]:
        """Tests that execute a mutant's lines.

        For code of the import, any line of the file, or no line at all: these look at what is made there.
        """
        first, last = mutant.lines
        tests = {
            test
            for (file, line), names in self.tests.items()
            if file == mutant.file and (mutant.imported or first <= line <= last)
            for test in names
        }
        return tests | self._still() if mutant.imported else tests

    def _still(self) -> set[str]:
        """Tests that execute no line of the core."""
        return set(self.seconds).difference(*self.tests.values())


def tracer(files: dict[str, str], lines: set[tuple[str, int]]) -> Callable[..., Any]:
    """A trace function that notes the executed lines of some files."""

    def local(frame: Any, event: str, argument: Any) -> Any:
        if event == "line":
            lines.add((files[frame.f_code.co_filename], frame.f_lineno))
        return local

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code.co_filename not in files:
            return None
        lines.add((files[frame.f_code.co_filename], frame.f_lineno))
        return local

    return trace
