"""Ten thousand workers and a million units on the store's own code, in simulated time.

    python -m bench.coordinator --units 1000000 --missing 30000 --workers 10000 \\
        --place /dev/shm --save results/faults/coordinator.json

Real are the directory and all that workers do to it: `Picking` chooses, `claims.claimed` takes, heartbeats
grow claims, `shards.commit` writes, flushes and renames, `directory.unfinished` lists. Simulated are time,
the workers' computing, and nodes: each has a boot of its own, so that a claim of a lost node ends by its
lease alone, as it does between machines. Nodes are lost for good, some of them inside a commit, or frozen
and woken; stragglers take several times as long as others.

Four liberties, without which no machine of this size could do it: most of the units are finished before; a
finished unit's files are removed once nobody computes it, its folder stays; names are listed at most once in
some simulated seconds, for all who ask within them; heartbeats are events and not threads.

Runs are collected in one record; several sizes show what grows with the directory. `microseconds` is what a
look, a claim, a heartbeat and a commit took of one core of this machine, the kernel's part included: what
one directory can carry, however many workers there are. Exit code 1 if a unit was lost or committed twice.
"""

import argparse
import heapq
import json
import random
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import IO, Any
from unittest.mock import patch

from finite_calculus.harness import claims, directory, runner, shards
from finite_calculus.harness.picking import Picking
from finite_calculus.harness.store import Folder

FINGERPRINT, FILES = "f" * 64, {"table.parquet": b"." * 200}
PER_NODE = 8
# Seconds: the middle unit, how long a look at a claim takes over a network, how workers start one by one.
UNIT, SPREAD, LATENCY, RAMP = 20.0, 0.3, 0.002, 60.0
STRAGGLER, FROZEN = 3.0, (100.0, 200.0)


@dataclass(frozen=True)
class Size:
    """A directory of so many units, so many of them to be done, by so many workers."""

    units: int
    missing: int
    workers: int
    listed_every: float


class LostError(BaseException):
    """A node's end inside a commit: nothing of the worker's own code may tidy up."""


@dataclass(eq=False)
class Worker:
    """A worker: what it believes to be missing, and the claim that it holds."""

    node: "Node"
    picking: Picking
    patience: claims.Patience = field(default_factory=claims.Patience)
    unit: str = ""
    claim: AbstractContextManager[bool] | None = None
    file: IO[bytes] | None = None


@dataclass(eq=False)
class Node:
    """A machine: gone, or frozen until some time."""

    name: str
    gone: bool = False
    frozen_until: float = 0.0


class Simulation:
    """Events in order of simulated time."""

    def __init__(self, out: Path, size: Size, draw: random.Random):
        self.out, self.size, self.draw, self.now = out, size, draw, 0.0
        self.units = [f"unit-{n:07d}" for n in range(size.units)]
        finished = set(draw.sample(self.units, size.units - size.missing))
        for unit in finished:
            self.shard(unit).mkdir(parents=True)
        self.listed = [unit for unit in self.units if unit not in finished]
        self.nodes = [Node(f"node-{n}") for n in range(-(-size.workers // PER_NODE))]
        self.workers = [
            Worker(self.nodes[n // PER_NODE], Picking(self.listed, self.missing))
            for n in range(size.workers)
        ]
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.number, self.acting = 0, self.workers[0]
        self.count: Counter[str] = Counter()
        self.computing: Counter[str] = Counter()
        self.listed_at = -1.0
        self.spent: dict[str, float] = defaultdict(float)
        self.in_lost_hands: set[str] = set()

    def after(self, seconds: float, act: Callable[[], None]) -> None:
        """Let something happen later."""
        self.number += 1
        heapq.heappush(self.events, (self.now + seconds, self.number, act))

    def missing(self, units: list[str]) -> list[str]:
        """The units that are missing, read from the directory at most once a second."""
        if len(units) <= directory.FEW:
            return directory.unfinished(self.out, units)
        self.count["listings asked for"] += 1
        if self.now - self.listed_at >= self.size.listed_every:
            with self.timed("listing"):
                self.listed = directory.unfinished(self.out, self.units)
            self.listed_at = self.now
            self.count["listings made"] += 1
        return self.listed

    def run(self) -> None:
        """From the first worker's start to the last worker's end."""
        for number, worker in enumerate(self.workers):
            self.after(RAMP * number / len(self.workers), lambda worker=worker: self.look(worker))
        while self.events:
            self.now, _, act = heapq.heappop(self.events)
            act()

    @contextmanager
    def timed(self, kind: str) -> Iterator[None]:
        """Charge a block to a kind of operation."""
        start = time.thread_time()
        yield
        self.spent[kind] += time.thread_time() - start
        self.count[kind] += 1

    def enter(self, worker: Worker, act: Callable[[], None]) -> bool:
        """Whether a worker can act now; what is frozen does it when it wakes."""
        if worker.node.gone:
            return False
        if worker.node.frozen_until > self.now:
            self.after(worker.node.frozen_until - self.now, act)
            return False
        self.acting, claims._PATIENCE = worker, worker.patience
        return True

    def look(self, worker: Worker) -> None:
        """Take the first free unit that it comes by, or wait."""
        again = lambda: self.look(worker)  # noqa: E731
        if not self.enter(worker, again):
            return
        spent = 0.0
        while worker.picking.missing:
            unit, spent = worker.picking.next(), spent + LATENCY
            finished = self.shard(unit).exists()
            if not finished and self.take(worker, unit):
                self.after(spent + self.seconds(), lambda: self.finish(worker))
                self.after(claims.BEAT, partial(self.beat, worker, unit))
                return
            if pause := worker.picking.was_refused(finished):
                self.count["pauses"] += 1
                self.after(spent + pause, again)
                return
        self.count["workers that ended"] += 1

    def take(self, worker: Worker, unit: str) -> bool:
        """The real claim."""
        start = time.thread_time()
        claim = claims.claimed(self.out, unit)
        taken = claim.__enter__()
        kind = "claim" if taken else "look"
        self.spent[kind] += time.thread_time() - start
        self.count[kind] += 1
        if not taken:
            claim.__exit__(None, None, None)
            return False
        worker.claim, worker.unit = claim, unit
        self.computing[unit] += 1
        self.count["taken over from the frozen"] += self.computing[unit] > 1
        self.count["taken over from the lost"] += unit in self.in_lost_hands
        self.in_lost_hands.discard(unit)
        return True

    def seconds(self) -> float:
        """How long a unit takes; one in a hundred is a straggler."""
        straggles = self.draw.random() < 0.01
        self.count["stragglers"] += straggles
        return UNIT * self.draw.lognormvariate(0, SPREAD) * (STRAGGLER if straggles else 1.0)

    def beat(self, worker: Worker, unit: str) -> None:
        """The real heartbeat's write, every few seconds while the unit is computed."""
        again = lambda: self.beat(worker, unit)  # noqa: E731
        if worker.unit == unit and worker.file is not None and self.enter(worker, again):
            with self.timed("heartbeat"):
                worker.file.write(b".")
                worker.file.flush()
            self.after(claims.BEAT, again)

    def finish(self, worker: Worker) -> None:
        """The real commit, and the end of the claim."""
        if not self.enter(worker, lambda: self.finish(worker)):
            return
        assert worker.claim is not None
        unit = worker.unit
        with self.timed("commit"):
            first = shards.commit(self.shard(unit), FILES, fingerprint=FINGERPRINT)
        with self.timed("end of a claim"):
            worker.claim.__exit__(None, None, None)
        worker.claim, worker.file, worker.unit = None, None, ""
        self.count["committed" if first else "late commits compared and not written"] += 1
        self.release(unit)
        if first:
            worker.picking.ran()
        else:
            worker.picking.was_refused(True)
        self.look(worker)

    def release(self, unit: str) -> None:
        """One worker less computes a unit; after the last one only its folder stays."""
        self.computing[unit] -= 1
        if not self.computing[unit]:
            del self.computing[unit]
            if self.shard(unit).exists():
                for path in self.shard(unit).iterdir():
                    path.unlink()

    def lose(self, node: Node) -> None:
        """A node is gone: its files are closed, its claims stay; some workers were inside a commit."""
        for worker in (worker for worker in self.workers if worker.node is node and worker.unit):
            assert worker.claim is not None
            if self.draw.random() < 0.25:
                with suppress(LostError), patch.object(shards.os, "rename", end_here):
                    shards.commit(self.shard(worker.unit), FILES, fingerprint=FINGERPRINT)
                self.count["lost inside a commit"] += 1
            with patch.object(claims, "_is_current", lambda *_: False):
                worker.claim.__exit__(None, None, None)  # the file is closed, the claim stays
            self.count["units lost in hand"] += 1
            self.in_lost_hands.add(worker.unit)
            self.release(worker.unit)
        node.gone = True
        self.count["nodes lost"] += 1

    def freeze(self, node: Node) -> None:
        """A node stands still for longer than a lease."""
        node.frozen_until = self.now + self.draw.uniform(*FROZEN)
        self.count["nodes frozen"] += 1

    def shard(self, unit: str) -> Path:
        return self.out / directory.UNITS / unit


def end_here(*words: Any) -> None:
    """A machine that ends at the rename: what was written stays, and nobody tidies up."""
    raise LostError


def simulated(simulation: Simulation) -> None:
    """Let claims see simulated time, nodes and heartbeats."""

    class Beats:
        def __init__(self, target: Any, args: tuple[IO[bytes], Any], daemon: bool) -> None:
            simulation.acting.file = args[0]

        def start(self) -> None: ...

        def join(self) -> None: ...

    claims.time = SimpleNamespace(monotonic=lambda: simulation.now)  # type: ignore[assignment]
    claims.threading = SimpleNamespace(Thread=Beats, Event=threading.Event)  # type: ignore[assignment]
    claims._boot = lambda: simulation.acting.node.name


def study(place: Path | None, size: Size, seed: int) -> dict[str, Any]:
    """One simulation and what it counted."""
    out = Path(tempfile.mkdtemp(prefix="coordinator-", dir=place))
    draw = random.Random(seed)
    random.seed(seed)
    simulation = Simulation(out, size, draw)
    simulated(simulation)
    ideal = size.missing * UNIT / size.workers
    nodes = draw.sample(
        simulation.nodes, min(len(simulation.nodes) - 1, max(3, 3 * len(simulation.nodes) // 100))
    )
    for number, node in enumerate(nodes):
        fault = simulation.freeze if number % 3 == 0 else simulation.lose
        simulation.after(
            draw.uniform(UNIT, max(RAMP, ideal)), lambda fault=fault, node=node: fault(node)
        )
    wall = time.monotonic()
    simulation.run()
    wall = time.monotonic() - wall
    with simulation.timed("listing"):
        left = directory.unfinished(out, simulation.units)
    parts = sum(map(len, directory.unfinished_parts(out).values()))
    runner._clear_parts(SimpleNamespace(out=out, store=Folder(out)))  # type: ignore[arg-type]
    count, spent = simulation.count, simulation.spent
    operations = ("look", "claim", "heartbeat", "commit", "end of a claim")
    busy = sum(spent[kind] for kind in operations)
    result = {
        **asdict(size),
        "nodes": len(simulation.nodes),
        "lost": len(left),
        "doubled": count["committed"] - (size.missing - len(left)),
        "commits_cut_short": parts,
        "left_of_them": len(directory.unfinished_parts(out)),
        "counts": dict(sorted(count.items())),
        "simulated_seconds": round(simulation.now, 1),
        "ideal_simulated_seconds": round(ideal, 1),
        "processor_seconds": round(busy, 1),
        "units_per_processor_second": round(size.missing / busy),
        "microseconds": {kind: round(1e6 * spent[kind] / count[kind], 1) for kind in operations},
        "seconds_of_a_listing": round(spent["listing"] / count["listing"], 4),
        "wall_seconds": round(wall, 1),
    }
    shutil.rmtree(out)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--units", type=int, default=1_000_000)
    parser.add_argument(
        "--missing", type=int, default=30_000, help="the others are finished before"
    )
    parser.add_argument("--workers", type=int, default=10_000)
    parser.add_argument("--listed-every", type=float, default=1.0, help="simulated seconds")
    parser.add_argument("--seed", type=int, default=22)
    parser.add_argument(
        "--place", type=Path, default=None, help="a folder, as of a file system in memory"
    )
    parser.add_argument("--save", type=Path, default=None)
    options = parser.parse_args()
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    size = Size(options.units, options.missing, options.workers, options.listed_every)
    result = study(options.place, size, options.seed)
    result["peak_memory_bytes"] = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    result["command"] = (
        f"python -m bench.coordinator --units {size.units} --missing {size.missing} "
        f"--workers {size.workers} --listed-every {size.listed_every} --seed {options.seed}"
    )
    print(json.dumps(result, indent=1), flush=True)
    if options.save is not None:
        earlier = json.loads(options.save.read_text())["runs"] if options.save.exists() else []
        runs = {run["command"]: run for run in [*earlier, result]}.values()
        ordered = sorted(runs, key=lambda run: (run["workers"], run["units"]))
        words = {"unit_seconds": UNIT, "straggler_takes_times": STRAGGLER, "straggles": 0.01}
        options.save.write_text(json.dumps({**words, "runs": ordered}, indent=1) + "\n")
    sys.exit(bool(result["lost"] or result["doubled"]))


if __name__ == "__main__":
    main()
