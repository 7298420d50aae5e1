"""What a run's directory survives: kills, frozen workers, no space, no rights, many workers at once.

    python -m bench.fault_study --save results/faults/faults.json

A study of plain numbers runs on the real runner and store, in processes that are forked ready to start, so
that faults fall between and inside units and not into start-up. Whatever happened, the run is then finished
and its records must be those of an unbroken run, byte for byte (seals hold times and are not compared): a
unit that is missing in the end is `lost`, one that two processes both committed is `doubled`, and `different`
counts runs with other bytes. `crowd` lets many workers share many units of no work: what claims and commits
cost, on this machine's file system. Exit code 1 if anything was lost, doubled or different.
"""

import argparse
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch

from finite_calculus.harness import (
    Plan,
    Row,
    Study,
    StudySettings,
    UnitResult,
    claims,
    compare,
    shards,
)
from finite_calculus.harness.runner import run

LEASE, NOBODY = 0.3, 65534
WRONG = ("lost", "doubled", "different")
KILLS = "kills at random moments"


class FaultSettings(StudySettings):
    study: str = "faults"
    seed: int = 22
    units: int = 24
    work: float = 0.002


@dataclass(frozen=True)
class Mean(Row):
    unit: int
    mean: float


class Faults(Study[FaultSettings, int]):
    """Means of draws, with a little waiting in place of work."""

    name: ClassVar[str] = "faults"
    Settings = FaultSettings
    tables: ClassVar[Mapping[str, type[Row]]] = {"means": Mean}

    def plan(self, subject: Any, settings: FaultSettings, stage: str, policy: Any) -> Plan[int]:
        units = {f"unit-{n:06d}": n for n in range(settings.units)}
        return Plan(units, {"units": settings.units})

    def run(self, subject: Any, settings: FaultSettings, unit: int, policy: Any) -> UnitResult:
        draws = np.random.default_rng((settings.seed, unit)).random(64)
        time.sleep(settings.work)
        mean = float(draws.mean())
        check = compare("mean within the unit interval", [(abs(mean - 0.5), 0.5)])
        return UnitResult(
            {"means": [Mean(unit, mean)]}, [check], {"draws": torch.from_numpy(draws)}
        )

    def report(self, settings: FaultSettings, records: Any) -> tuple[()]:
        return ()


STUDY = Faults()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=20, help="of every other fault")
    parser.add_argument("--crowd", type=int, default=2000, help="units that many workers share")
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--seed", type=int, default=981)
    parser.add_argument("--only", default=None, help="names of faults, with commas; no crowd then")
    parser.add_argument("--save", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    claims.BEAT, claims.LEASE, claims.POLL = 0.02, LEASE, 0.01
    work, draw = Path(tempfile.mkdtemp(prefix="fault-study-")), random.Random(options.seed)
    # A user without rights must be able to come this far.
    work.chmod(0o755)
    begin(work / "whole")()
    start = time.monotonic()
    begin(work / "timed")()
    seconds, whole = time.monotonic() - start, hashes(work / "whole")
    faults: dict[str, Callable[[Path], Counter[str]]] = {
        KILLS: lambda out: killed(out, draw, seconds),
        "kills inside a commit": lambda out: killed_in_commit(out, draw),
        "frozen and woken": lambda out: frozen(out, draw, seconds),
        "no space": lambda out: starved(out, draw),
        "disk full": lambda out: filled(out, draw),
        "no rights": lambda out: forbidden(out),
        "turned read-only": lambda out: turned(out, draw, seconds),
        "two at once": lambda out: together(out),
    }
    tally: dict[str, Any] = {}
    if options.only is not None:
        faults = {name: faults[name] for name in options.only.split(",")}
    for name, fault in faults.items():
        counted: Counter[str] = Counter(faults=0, lost=0, doubled=0, different=0)
        number = 0
        while counted["faults"] < (options.kills if name == KILLS else options.rounds):
            out = work / f"{name.replace(' ', '-')}-{number}"
            counted += fault(out)
            counted += judged(out, whole)
            number += 1
            unmounted(out)
            shutil.rmtree(out)
        tally[name] = {
            "runs": number,
            **{key: counted[key] for key in sorted({*counted, "lost", "doubled", "different"})},
        }
        print(name, tally[name], flush=True)
    if options.only is None:
        tally["crowd"] = crowd(work, options.crowd, options.workers, draw)
        print("crowd", tally["crowd"], flush=True)
    shutil.rmtree(work)
    tally["command"] = (
        f"python -m bench.fault_study --kills {options.kills} --rounds {options.rounds} "
        f"--crowd {options.crowd} --workers {options.workers} --seed {options.seed}"
        + (f' --only "{options.only}"' if options.only else "")
    )
    if options.save is not None:
        options.save.parent.mkdir(parents=True, exist_ok=True)
        options.save.write_text(json.dumps(tally, indent=1) + "\n")
    counts = [each for each in tally.values() if isinstance(each, dict)]
    sys.exit(any(each[key] for each in counts for key in WRONG))


def begin(out: Path, **changes: Any) -> Callable[[], None]:
    """Work on the run in a directory, when called."""
    return lambda: (run(STUDY, FaultSettings(**changes), out), None)[1]


def forked(work: Callable[[], None]) -> int:
    """A process that does some work and ends; 0 if it came to its end, 1 after an error."""
    child = os.fork()
    if child:
        return child
    try:
        work()
    except BaseException:  # whatever it is, this process is not to go on as its parent
        os._exit(1)
    os._exit(0)


def ended(child: int) -> int:
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def killed(out: Path, draw: random.Random, seconds: float) -> Counter[str]:
    """Two workers at a time, each killed at some moment of the time that a run takes, until units run out."""
    seen: Counter[str] = Counter()
    for _ in range(8):
        children = [forked(begin(out)) for _ in range(2)]
        for child in children:
            time.sleep(draw.uniform(0, seconds / 8))
            os.kill(child, signal.SIGKILL)
        seen["faults"] += sum(ended(child) == -signal.SIGKILL for child in children)
    return seen


def killed_in_commit(out: Path, draw: random.Random) -> Counter[str]:
    """Killed at one of the writes, the flush or the rename of one of the commits."""
    place, step = draw.randrange(20), draw.randrange(6)

    def work() -> None:
        write, flush, count = shards.write_file, shards.flush_directory, [place * 6 + step]

        def dying(do: Callable[..., Any]) -> Callable[..., Any]:
            def step_of_commit(*words: Any) -> Any:
                if count[0] == 0:
                    os.kill(os.getpid(), signal.SIGKILL)
                count[0] -= 1
                return do(*words)

            return step_of_commit

        shards.write_file, shards.flush_directory = dying(write), dying(flush)
        begin(out)()

    return Counter(faults=int(ended(forked(work)) == -signal.SIGKILL))


def frozen(out: Path, draw: random.Random, seconds: float) -> Counter[str]:
    """Stopped at some moment; another worker finishes; then it wakes and ends."""
    child = forked(begin(out))
    time.sleep(draw.uniform(0.05, 0.8) * seconds)
    os.kill(child, signal.SIGSTOP)
    begin(out)()
    os.kill(child, signal.SIGCONT)
    code = ended(child)
    log = (out / "run.log").read_text()
    return Counter(
        faults=1,
        late_commits_refused=log.count("had been taken over"),
        ended_with_an_error=int(code != 0),
    )


def starved(out: Path, draw: random.Random) -> Counter[str]:
    """No file may grow beyond some size: the system refuses a write somewhere."""
    run(STUDY, FaultSettings(), out, limit=3)

    def work() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        most = draw.randrange(100, 2500)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
        begin(out)()

    return Counter(faults=int(ended(forked(work)) == 1))


def filled(out: Path, draw: random.Random) -> Counter[str]:
    """A file system of its own, too small for the run, then made larger; needs the right to mount."""
    out.mkdir()
    size = draw.randrange(60, 400)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}k", "tmpfs", str(out)], check=True)
    full = ended(forked(begin(out))) == 1
    subprocess.run(["mount", "-o", "remount,size=64m", str(out)], check=True)
    return Counter(faults=int(full))


def unmounted(out: Path) -> None:
    """A file system of its own goes with the run."""
    if out.is_mount():
        subprocess.run(["umount", str(out)], check=True)
        out.mkdir(exist_ok=True)


def turned(out: Path, draw: random.Random, seconds: float) -> Counter[str]:
    """The folder of the units loses its rights while a user without other rights works in it."""
    run(STUDY, FaultSettings(), out, limit=3)

    def work() -> None:
        if os.geteuid() == 0:
            for path in (out, out / "claims", out / "units", out / "run.log"):
                os.chown(path, NOBODY, NOBODY)
            os.setuid(NOBODY)
        begin(out)()

    child = forked(work)
    time.sleep(draw.uniform(0.1, 0.8) * seconds)
    (out / "units").chmod(0o555)
    code = ended(child)
    (out / "units").chmod(0o755)
    return Counter(faults=int(code == 1))


def forbidden(out: Path) -> Counter[str]:
    """The folder of the units can be read and not written, by a user without other rights."""
    run(STUDY, FaultSettings(), out, limit=3)

    def work() -> None:
        if os.geteuid() == 0:
            for path in (out, out / "claims", out / "run.log"):
                os.chown(path, NOBODY, NOBODY)
            os.setuid(NOBODY)
        begin(out)()

    (out / "units").chmod(0o555)
    code = ended(forked(work))
    (out / "units").chmod(0o755)
    return Counter(faults=int(code == 1))


def together(out: Path) -> Counter[str]:
    """Two workers begin and end the run at the same time."""
    children = [forked(begin(out)) for _ in range(2)]
    return Counter(faults=1, ended_with_an_error=sum(ended(child) != 0 for child in children))


def judged(out: Path, whole: dict[str, str]) -> Counter[str]:
    """Finish a run and compare it with the unbroken one."""
    run(STUDY, FaultSettings(), out)
    here = hashes(out)
    left = [path for path in (out / "units").iterdir() if path.name.endswith(".part")]
    return Counter(
        lost=len({Path(name).parent for name in whole} - {Path(name).parent for name in here}),
        doubled=sum(count > 1 for count in commits(out).values()),
        different=int(here != whole),
        leftovers=len(left),
    )


def crowd(work: Path, units: int, workers: int, draw: random.Random) -> dict[str, Any]:
    """Many workers share units of no work, a quarter of them is killed; then one process does all again."""
    out, alone = work / "crowd", work / "alone"
    start, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
    children = [forked(begin(out, units=units, work=0.0)) for _ in range(workers)]
    for child in draw.sample(children, workers // 4):
        time.sleep(0.05)
        os.kill(child, signal.SIGKILL)
    codes = Counter(ended(child) for child in children)
    seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    finished = [path for path in (out / "units").iterdir() if not path.name.endswith(".part")]
    begin(alone, units=units, work=0.0)()
    return {
        "units": units,
        "workers": workers,
        "killed": codes[-signal.SIGKILL],
        "lost": units - len(finished),
        "doubled": sum(count > 1 for count in commits(out).values()),
        "different": int(hashes(out) != hashes(alone)),
        "seconds": round(seconds, 1),
        "processor_milliseconds_per_unit": round(1e3 * spent / units, 2),
    }


def commits(out: Path) -> Counter[str]:
    """How often each unit was committed, by the log."""
    lines = (line.split() for line in (out / "run.log").read_text().splitlines())
    return Counter(words[4] for words in lines if len(words) == 8 and words[5] == "in")


def hashes(out: Path) -> dict[str, str]:
    """sha256 of every file of the units but the seals."""
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((out / "units").rglob("*"))
        if path.is_file() and path.name != "seal.json"
    }


if __name__ == "__main__":
    # As a module of its own name, which the identity of a run looks for.
    from bench import fault_study

    fault_study.main()
