"""One pytest session that collects the tests once and holds them against many mutants.

The session first runs every test in a forked child, to learn how long it takes and which lines of the
core it executes. Each mutant then gets a child of its own, which runs the tests that execute the
mutated lines and stops at the first failure.
"""

import contextlib
import gc
import importlib
import os
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from multiprocessing import connection, get_context
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
from hypothesis import Phase, settings

from tests.mutation.mutants import Mutant
from tests.mutation.patch import exchange, living_functions, serve
from tests.mutation.profile import Profile, tracer

_FORK = get_context("fork")
_OPTIONS = [
    "-q",
    "-p",
    "no:cacheprovider",
    "-p",
    "no:xdist",
    "--capture=no",
    "--no-header",
    "--tb=no",
]
# pytest is started in a process that knows its plugins already.
_OPTIONS += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]


@dataclass(frozen=True)
class Verdict:
    """What became of a mutant: "killed", "timeout" or "survived", by which test, in how long."""

    outcome: str
    test: str = ""
    seconds: float = 0.0


class CollectionError(RuntimeError):
    """The tests could not be imported and collected."""


class Session:
    """The collected tests of a project, with the sources as they were when it was imported."""

    def __init__(self, root: Path, core: Path, tests: Sequence[str]) -> None:
        self.root, self.core, self.tests = root, core, [str(root / test) for test in tests]
        self.sources = {path.name: path.read_bytes() for path in core.glob("*.py")}
        self.items: dict[str, pytest.Item] = {}
        self.functions: dict[str, list[FunctionType]] = {}
        self.failed: list[str] = []
        self.kills: Counter[tuple[str, str, str]] = Counter()
        self._paths: dict[str, dict[str, frozenset[int]]] = {}

    def run(self, work: Callable[["Session"], None]) -> None:
        """Collect the tests, then do the work in place of running them."""
        plugin = _Plugin(self, work)
        outcome = pytest.main([*_OPTIONS, *self.tests], plugins=[plugin])
        if plugin.problem is not None:
            raise plugin.problem
        if outcome not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            raise CollectionError(f"The tests must be collected without an error; got {outcome!r}.")

    def profiles(self, files: Sequence[str], jobs: int) -> Iterator[tuple[str, Profile]]:
        """Run the tests of each file once, unmutated; raises if one fails."""
        for file, profile in _forked(files, self._profiled, jobs, 3600):
            if not isinstance(profile, Profile):
                raise RuntimeError(f"The tests must pass without a mutation; got {profile}.")
            yield file, profile

    def verdicts(
        self, mutants: Sequence[Mutant], profile: Profile, *, jobs: int, budget: float
    ) -> Iterator[tuple[Mutant, Verdict]]:
        """The verdict on each mutant, in any order, from tests that take `budget` seconds in all."""

        def judge(mutant: Mutant) -> Verdict:
            return self._judged(mutant, self._chosen(mutant, profile, budget), profile)

        self.warm(profile)
        self._paths = {file: profile.paths(file) for file in {m.file for m in mutants}}
        for mutant, verdict in _forked(mutants, judge, jobs, 60 + 10 * budget):
            self.remember(mutant, verdict)
            yield mutant, verdict

    def _chosen(self, mutant: Mutant, profile: Profile, budget: float) -> list[str]:
        """Covering tests: one of every test function, then a second of each, and so on.

        In each round what killed neighbours at least cost comes first, then as many different ones as
        possible: tests differ if they take another path through the file, or are of another function;
        those that execute little else of the file come first.
        """
        paths = self._paths[mutant.file]
        rank: Counter[object] = Counter()
        keys = {}
        rates = {
            test: self.kills[mutant.file, mutant.function, test] / profile.seconds[test]
            for test in profile.covering(mutant)
        }
        for test in sorted(rates, key=lambda test: (-rates[test], profile.seconds[test])):
            path, function = paths.get(test, frozenset()), test.partition("[")[0]
            kind = (path, function) if path else test
            keys[test] = (rank[function], -rates[test], rank[kind], len(path), rank[path])
            rank.update((path, kind, function))
        seconds, tests = 0.0, []
        for test in sorted(keys, key=keys.__getitem__):
            if seconds + profile.seconds[test] <= budget:
                seconds += profile.seconds[test]
                tests.append(test)
        return tests

    def warm(self, profile: Profile) -> None:
        """Import here what the tests would import late, in every child anew."""
        for name in sorted(profile.modules - set(sys.modules)):
            with contextlib.suppress(Exception):
                importlib.import_module(name)
        gc.freeze()  # the children share this memory

    def remember(self, mutant: Mutant, verdict: Verdict) -> None:
        """Let a kill decide which tests the mutants of the same function meet first."""
        self.kills[mutant.file, mutant.function, verdict.test] += 1

    def _judged(self, mutant: Mutant, tests: list[str], profile: Profile) -> Verdict:
        path, source = self.core / mutant.file, self.sources[mutant.file]
        living = self.functions[mutant.file]
        if not mutant.imported and exchange(mutant, path, source, living):
            return self._first_failure(tests, profile)
        serve(path, mutant.apply(source), self.root)
        files = sorted({str(self.items[test].path) for test in tests})
        again, verdicts = Session(self.root, self.core, files), []
        with contextlib.suppress(CollectionError):  # also raised if one of the tests has failed
            again.run(lambda session: verdicts.append(session._first_failure(tests, profile)))
        return verdicts[0] if verdicts else Verdict("killed", "collection")

    def _first_failure(self, tests: list[str], profile: Profile) -> Verdict:
        if not self.items.keys() >= set(tests):
            return Verdict("killed", "collection")
        for test, following in pairwise([*tests, None]):
            # A mutated loop may never end: a generous limit of processor time.
            signal.setitimer(signal.ITIMER_PROF, 5 + 20 * profile.seconds[test])
            self._run(test, following)
            if self.failed:
                return Verdict("killed", test)
        return Verdict("survived")

    def _run(self, test: str, following: str | None) -> None:
        item, after = self.items[test], self.items.get(following or "")
        item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)

    def _profiled(self, file: str) -> Profile | str:
        tests = [test for test in self.items if test.partition("::")[0] == file]
        lines: set[tuple[str, int]] = set()
        profile, before = Profile(), set(sys.modules)
        sys.settrace(tracer({str(self.core / name): name for name in self.sources}, lines))
        for test, following in pairwise([*tests, None]):
            lines.clear()
            start = time.process_time()
            self._run(test, following)
            profile.seconds[test] = time.process_time() - start
            if self.failed:
                return f"a failure of {test}"
            for line in lines:
                profile.tests[line].add(test)
        sys.settrace(None)
        profile.modules = set(sys.modules) - before
        return profile


class _Plugin:
    """Replaces the run of the tests by some work with them."""

    def __init__(self, session: Session, work: Callable[[Session], None]) -> None:
        self.session, self.work = session, work
        self.problem: Exception | None = None

    def pytest_collection(self) -> None:
        # Finding a failure is enough: no shrinking, and nothing remembered between processes.
        settings.register_profile(
            "mutation",
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
        )
        settings.load_profile("mutation")

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        self.session.items = {item.nodeid: item for item in session.items}
        self.session.functions = living_functions(self.session.core)
        gc.collect()
        try:
            self.work(self.session)
        except Exception as problem:  # which pytest would report as its own
            self.problem = problem
        return True

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.session.failed.append(report.nodeid)


def _forked(
    tasks: Sequence[Any], work: Callable[[Any], Any], jobs: int, limit: float
) -> Iterator[tuple[Any, Any]]:
    """Do each task in a child of its own; a child that dies or takes too long is a verdict too."""
    waiting, running = list(reversed(tasks)), {}
    while waiting or running:
        while waiting and len(running) < jobs:
            receiver, sender = _FORK.Pipe(duplex=False)
            task = waiting.pop()
            child = _FORK.Process(target=_child, args=(work, task, sender), daemon=True)
            child.start()
            sender.close()
            running[receiver] = (task, child, time.monotonic())
        for receiver in connection.wait(list(running), timeout=1.0):
            task, child, start = running.pop(receiver)
            yield task, _received(receiver, child, time.monotonic() - start)
        for _, child, start in running.values():
            if time.monotonic() - start > limit:
                child.kill()


def _received(receiver: Any, child: Any, seconds: float) -> Any:
    try:
        result = receiver.recv()
    except EOFError:
        child.join()
        hung = child.exitcode in (-signal.SIGPROF, -signal.SIGKILL)
        return Verdict("timeout" if hung else "killed", f"exit code {child.exitcode}", seconds)
    child.join()
    if isinstance(result, Exception):
        raise result
    if isinstance(result, Verdict):
        return Verdict(result.outcome, result.test, round(seconds, 3))
    return result


def _child(work: Callable[[Any], Any], task: Any, sender: Any) -> None:
    silent = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silent, 1)
    os.dup2(silent, 2)
    try:
        sender.send(work(task))
    except Exception:
        sender.send(RuntimeError(f"the runner itself failed on {task}:\n{traceback.format_exc()}"))
    sender.close()
    os._exit(0)
