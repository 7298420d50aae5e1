"""Executors: who runs the units of a run. One worker is this process; others join it on one directory.

A worker is another process that calls the runner on the same store with the same settings: the store
coordinates them, nothing else is shared, and records are those of one process.
"""

import json
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Protocol

import torch

from finite_calculus.harness import directory
from finite_calculus.harness.archived import read_archive
from finite_calculus.harness.errors import WorkerError
from finite_calculus.harness.registry import find_study
from finite_calculus.harness.runner import Progress, Report, run
from finite_calculus.harness.settings import StudySettings
from finite_calculus.harness.store import Folder, Store, opened
from finite_calculus.harness.study import Study


class Executor(Protocol):
    """Runs all missing units of a run."""

    def __call__(
        self,
        study: Study[Any, Any],
        settings: StudySettings,
        place: Path | Store,
        *,
        device: str,
        limit: int | None,
        archive: Path | None,
        report: Report,
    ) -> Progress:
        """Run a study into a directory or another store, or go on with it."""
        ...


@dataclass(frozen=True)
class Processes:
    """This process and `workers` − 1 others; with one worker all units run here, one after the other."""

    workers: int

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
        """Start the others, work beside them, and wait for all."""
        if self.workers < 1 or (limit is not None and self.workers > 1):
            raise ValueError(
                f"`workers` must be at least 1, and 1 where `limit` is set; got {self.workers}."
            )
        store = Folder(place) if isinstance(place, Path) else place
        directory.require_free(store.path)
        with tempfile.TemporaryFile("w+") as errors:
            started = range(self.workers - 1)
            others = [_start(settings, store.name, device, archive, errors) for _ in started]
            try:
                progress = run(
                    study,
                    settings,
                    store,
                    device=device,
                    limit=limit,
                    archive=archive,
                    report=report,
                )
                failed = [worker for worker in others if worker.wait() != 0]
            finally:
                for worker in others:
                    worker.terminate()
            if failed:
                errors.seek(0)
                last = (errors.read().strip().splitlines() or ["no message"])[-1]
                raise WorkerError(
                    f"{len(failed)} of {len(others)} workers ended with an error; finished units are "
                    f"kept, and the same command goes on. The last message: {last}"
                )
        return progress


def choose_threads(
    out: Path, workers: int, threads: int | None, archive: Path | None = None
) -> int:
    """Threads of each process: `threads`, as the run began, or the cores shared by the workers.

    Rounding depends on them, so that they are part of a run's identity.
    """
    if threads is not None:
        return threads
    began = None
    if (out / directory.RUN).is_file():
        began = directory.read_run(out).identity
    elif archive is not None:
        began = read_archive(archive).record.identity
    recorded = None if began is None else began["made_with"].get("threads")
    if recorded is not None:
        return int(recorded)
    return torch.get_num_threads() if workers == 1 else max(1, (os.cpu_count() or 1) // workers)


def words_of_run(
    settings: StudySettings, place: str, device: str, archive: Path | None
) -> dict[str, Any]:
    """What another process must be told to work on a run, as plain data."""
    return {
        "study": settings.study,
        "settings": settings.with_places(),
        "place": place,
        "device": device,
        "archive": None if archive is None else str(archive),
        "threads": torch.get_num_threads(),
    }


def join(words: dict[str, Any], loaded: tuple[Any, Any] | None = None) -> Progress:
    """What a worker does: the same run, in its own process; `loaded` is its model, if it is there."""
    torch.set_num_threads(words["threads"])
    study = find_study(words["study"])
    settings = study.Settings.model_validate(words["settings"])
    archive = words["archive"] and Path(words["archive"])
    device = words["device"]
    with opened(words["place"]) as store:
        return run(study, settings, store, device=device, loaded=loaded, archive=archive)


def _start(
    settings: StudySettings, place: str, device: str, archive: Path | None, errors: IO[str]
) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "finite_calculus.harness.worker"]
    worker = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, text=True
    )
    assert worker.stdin is not None  # it is a pipe
    with worker.stdin as pipe:
        pipe.write(json.dumps(words_of_run(settings, place, device, archive)))
    return worker
