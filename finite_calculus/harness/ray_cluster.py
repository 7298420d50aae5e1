"""A run on a Ray cluster: a member for each GPU or group of cores, in which the model is loaded once.

Ray places the members, starts them again where their node is gone, and adds nodes if it is told to. It does
not hand out work: members take units from the run's directory, which every node must see, as any other
process does, so that a driver or node that dies loses the units in hand and nothing else. Over the network go
the words of the run and names, no tensor, prompt or record.
"""

import logging
import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from finite_calculus.harness import directory
from finite_calculus.harness.errors import ChangedRunError, UnitError, WorkerError
from finite_calculus.harness.executors import join, words_of_run
from finite_calculus.harness.identity import differences, versions
from finite_calculus.harness.registry import find_study
from finite_calculus.harness.runner import Progress, Report
from finite_calculus.harness.settings import ModelSettings, StudySettings
from finite_calculus.harness.store import Folder, Store
from finite_calculus.harness.study import Study
from finite_calculus.provenance.files import PART

# So many members load at a time; so often Ray starts one again; so long the first are waited for.
LOADS, STARTS, PLACED = 4, 10, 60.0


@dataclass(frozen=True)
class RayCluster:
    """An executor: `local` starts Ray on this machine, `auto` or an address joins a cluster that runs.

    `workers` is how many members are wanted, as many as there is room for by default; Ray may place some of
    them later.
    """

    address: str
    workers: int | None = None

    def __call__(
        self,
        study: Study[Any, Any],
        settings: StudySettings,
        place: Path | Store,
        *,
        device: str = "cpu",
        limit: int | None = None,
        archive: Path | None = None,
        report: Report = lambda unit, done, total: None,
    ) -> Progress:
        """Place the members, compare their versions, let them load and work, and wait for the run's end."""
        if limit is not None:
            raise ValueError(f"`limit` must be left out on a Ray cluster; got {limit}.")
        store = Folder(place) if isinstance(place, Path) else place
        if not isinstance(store, Folder):
            raise ValueError(
                f"`ray` needs a run in a directory that all nodes see; got {store.name}. Start workers "
                f"yourself: `finite-calculus work {store.name}` on every node."
            )
        out = store.path
        directory.require_free(out)
        out.mkdir(parents=True, exist_ok=True)
        words = words_of_run(settings, str(out.resolve()), device, archive and archive.resolve())
        with _connected(self.address) as ray:
            members = _members(ray, {**words, "folder": str(Path.cwd())}, self.workers)
            return _Drive(ray, study, out, report).run(members)


class Member:
    """What lives on a node: a process with the model, which works on the run until nothing is left."""

    def __init__(self, words: dict[str, Any]) -> None:
        self.words = words
        self.loaded: tuple[Any, Any] | None = None
        torch.set_num_threads(words["threads"])
        # Paths of the settings are those of the driver.
        if Path(words["folder"]).is_dir():
            os.chdir(words["folder"])

    def greet(self, sign: str) -> tuple[str, dict[str, Any], bool]:
        """The node's name, its versions, and whether it sees a file of the run's directory."""
        study = find_study(self.words["study"])
        return socket.gethostname(), versions(study), Path(sign).is_file()

    def load(self) -> None:
        """Load the model, once for all units."""
        settings = find_study(self.words["study"]).Settings.model_validate(self.words["settings"])
        if isinstance(settings, ModelSettings):
            from finite_calculus.checkpoints import load

            self.loaded = load(settings.model, device=self.words["device"])

    def work(self) -> tuple[int, int]:
        """Take units until none is left; how many are done, of how many."""
        progress = join(self.words, loaded=self.loaded)
        return progress.done, progress.total


@dataclass(eq=False)
class _Drive:
    """What the driver knows: what each member was asked for, and what went wrong."""

    ray: Any
    study: Study[Any, Any]
    out: Path
    report: Report
    asked: dict[Any, tuple[str, Any]] = field(default_factory=dict)
    waiting: list[Any] = field(default_factory=list)
    failed: list[BaseException] = field(default_factory=list)
    begun_with: int | None = None

    def run(self, members: list[Any]) -> Progress:
        """From the first greeting to the first member that finds nothing left."""
        placed_by = time.monotonic() + PLACED
        with _sign(self.out) as sign:
            for member in members:
                self._ask("greet", member, str(sign))
            while self.asked:
                for ref in self.ray.wait(list(self.asked), timeout=1.0)[0]:
                    if (progress := self._hear(ref)) is not None:
                        return progress
                # Nobody begins before all that are placed in time have the same versions.
                if not self._count("greet") or time.monotonic() > placed_by:
                    while self.waiting and self._count("load") < LOADS:
                        self._ask("load", self.waiting.pop(0))
                self._tell()
        raise WorkerError(
            f"All of {len(members)} members of the Ray cluster ended with an error; finished units are kept, "
            f"and the same command goes on. The last message: {self.failed[-1]}"
        )

    def _ask(self, step: str, member: Any, *words: str) -> None:
        self.asked[getattr(member, step).remote(*words)] = (step, member)

    def _count(self, step: str) -> int:
        return sum(asked == step for asked, _ in self.asked.values())

    def _hear(self, ref: Any) -> Progress | None:
        """A member's answer, and what it is asked next; a progress at the end of the run."""
        step, member = self.asked.pop(ref)
        try:
            answer = self.ray.get(ref)
        except self.ray.exceptions.RayError as error:
            cause = getattr(error, "cause", None) or error
            # The unit of one member may be another's to finish; anything else would be the same for all.
            if not isinstance(cause, UnitError | self.ray.exceptions.RayError):
                raise cause from None
            self.failed.append(cause)
            return None
        if step == "greet":
            self._compare(*answer)
            self.waiting.append(member)
        elif step == "load":
            self._ask("work", member)
        return Progress(*answer) if step == "work" else None

    def _compare(self, node: str, theirs: dict[str, Any], sees: bool) -> None:
        """Refuse a node with other versions or code, or without the directory."""
        changed = differences(versions(self.study), theirs)
        if changed:
            raise ChangedRunError(
                f"All nodes of the Ray cluster must have the versions and the code of the driver; {node} "
                f"differs. Install the same there. What differs:\n  " + "\n  ".join(changed)
            )
        if not sees:
            raise WorkerError(
                f"All nodes of the Ray cluster must see {self.out.resolve()}; {node} does not. Use a "
                f"directory of a file system that they share."
            )

    def _tell(self) -> None:
        """Report what is finished, as the directory says."""
        done = sum(not name.endswith(PART) for name in directory.entries(self.out))
        plans = [directory.read_plan(self.out, stage) for stage in self.study.stages]
        total = sum(len(plan.units) for plan in plans if plan is not None)
        if total:
            self.begun_with = done if self.begun_with is None else self.begun_with
            self.report("", done - self.begun_with, total - self.begun_with)


def _members(ray: Any, words: dict[str, Any], workers: int | None) -> list[Any]:
    """Handles of the members; Ray places them as there is room."""
    per = {"CPU": words["threads"], **({"GPU": 1} if words["device"].startswith("cuda") else {})}
    there = ray.cluster_resources()
    room = min(int(there.get(kind, 0) // count) for kind, count in per.items())
    options = {"num_cpus": per["CPU"], "num_gpus": per.get("GPU", 0)}
    again = {"max_restarts": STARTS, "max_task_retries": STARTS}
    kind = ray.remote(**options, **again)(Member)
    return [kind.remote(words) for _ in range(workers or max(1, room))]


@contextmanager
def _connected(address: str) -> Iterator[Any]:
    """Ray, connected; what was started here ends with the block, a connection that is there stays."""
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # it would tell its makers
    import ray

    if ray.is_initialized():
        yield ray
        return
    words: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        words |= {"include_dashboard": False}
    try:
        ray.init(address=address, **words)
    except (ConnectionError, ValueError) as error:
        raise ValueError(
            f"`ray` must be local, auto, or the address of a cluster that runs, as in 10.0.0.1:6379; got "
            f"{address!r}: {error}"
        ) from error
    try:
        yield ray
    finally:
        ray.shutdown()


@contextmanager
def _sign(out: Path) -> Iterator[Path]:
    """A file in the directory of the run, for a node to see that it sees it."""
    sign = out.resolve() / f".{secrets.token_hex(8)}{PART}"
    sign.touch()
    try:
        yield sign
    finally:
        sign.unlink(missing_ok=True)
