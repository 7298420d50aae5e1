"""What a run at an address of an object store survives: kills, frozen workers, two at once.

    python -m bench.object_study --save results/faults/objects.json

The server is moto's, in a process of its own; the study is that of `bench.fault_study`, its workers are
processes that are forked ready to start. Whatever happened, the run is then finished and its records must be
those of a directory. The server's own log says how often a unit was written: more than once is `doubled`.
Exit code 1 if a unit was lost, doubled or has other bytes.
"""

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.fault_study import STUDY, FaultSettings, ended, forked, hashes
from finite_calculus.harness import claims
from finite_calculus.harness.runner import run
from finite_calculus.harness.store import opened, reading

WRITTEN = re.compile(r'"PUT /bucket/(\S+)/units/(\S+)\.zip HTTP/1\.1" 200')
SETTINGS = FaultSettings(units=12, work=0.02)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5, help="of every fault")
    parser.add_argument("--seed", type=int, default=22)
    parser.add_argument("--save", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    claims.BEAT, claims.LEASE, claims.POLL = 0.1, 2.0, 0.05
    with tempfile.TemporaryDirectory(prefix="object-study-") as place:
        server, log = started(Path(place))
        try:
            tally = study(Path(place), log, options.rounds, random.Random(options.seed))
        finally:
            server.terminate()
    tally["command"] = (
        f"python -m bench.object_study --rounds {options.rounds} --seed {options.seed}"
    )
    print(json.dumps(tally, indent=1))
    if options.save is not None:
        options.save.write_text(json.dumps(tally, indent=1) + "\n")
    counts = [each for each in tally.values() if isinstance(each, dict)]
    sys.exit(any(each["lost"] or each["doubled"] or each["different"] for each in counts))


def started(place: Path) -> tuple["subprocess.Popen[bytes]", Path]:
    """A server with an empty bucket, and its log."""
    log = place / "server.log"
    program = (
        "from moto.server import ThreadedMotoServer as S; import time; s = S('127.0.0.1', 0, verbose=True); "
        "s.start(); print(s.get_host_and_port()[1], flush=True); time.sleep(1e9)"
    )
    with log.open("wb") as errors:
        words = [sys.executable, "-c", program]
        server = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=errors)
    assert server.stdout is not None  # it is a pipe
    port = next(line.decode().strip() for line in server.stdout if line.strip().isdigit())
    os.environ |= {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ACCESS_KEY_ID": "nobody",
        "AWS_SECRET_ACCESS_KEY": "nothing",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    if ended(forked(make_bucket)):
        raise SystemExit("The server does not answer.")
    return server, log


def make_bucket() -> None:
    """In a process of its own: what asks a server has threads, and those do not survive a fork."""
    import s3fs

    s3fs.S3FileSystem().mkdir("bucket")


def study(place: Path, log: Path, rounds: int, draw: random.Random) -> dict[str, Any]:
    """Every fault in turn, each run at an address of its own."""
    run(STUDY, SETTINGS, place / "whole")
    whole = hashes(place / "whole")
    start = time.monotonic()
    alone = begin("s3://bucket/alone")
    if ended(forked(alone)):
        raise SystemExit("A run without faults ended with an error.")
    seconds = time.monotonic() - start
    faults: dict[str, Callable[[str], int]] = {
        "kills at random moments": lambda out: killed(out, draw, seconds),
        "frozen and woken": lambda out: frozen(out, draw, seconds),
        "two at once": together,
    }
    tally: dict[str, Any] = {"seconds_of_a_run": round(seconds, 1)}
    for name, fault in faults.items():
        counted: Counter[str] = Counter(runs=0, faults=0, lost=0, doubled=0, different=0)
        for number in range(rounds):
            out = f"{name.replace(' ', '-')}-{number}"
            counted["faults"] += fault(f"s3://bucket/{out}")
            result = place / f"{out}.json"
            forked_hashes = forked(lambda o=out, r=result: finish(f"s3://bucket/{o}", r))
            if ended(forked_hashes):
                raise SystemExit(f"{out} could not be finished.")
            here = json.loads(result.read_text())
            writes = Counter(u for o, u in WRITTEN.findall(log.read_text()) if o == out)
            counted["runs"] += 1
            units = {Path(each).parent.name for each in whole}
            counted["lost"] += len(units - {Path(each).parent.name for each in here})
            counted["doubled"] += sum(count > 1 for count in writes.values())
            counted["different"] += here != whole
        tally[name] = dict(counted)
        print(name, tally[name], flush=True)
    return tally


def begin(address: str) -> Callable[[], None]:
    """Work on the run at an address, when called."""

    def work() -> None:
        with opened(address, write=True) as store:
            run(STUDY, SETTINGS, store)

    return work


def finish(address: str, result: Path) -> None:
    """Finish a run and write the hashes of its records."""
    begin(address)()
    with reading(address) as path:
        result.write_text(json.dumps(hashes(path)))


def killed(address: str, draw: random.Random, seconds: float) -> int:
    """Two workers at a time, each killed at some moment of the time that a run takes, three times."""
    kills = 0
    for _ in range(3):
        children = [forked(begin(address)) for _ in range(2)]
        for child in children:
            time.sleep(draw.uniform(0, seconds / 3))
            os.kill(child, signal.SIGKILL)
        kills += sum(ended(child) == -signal.SIGKILL for child in children)
    return kills


def frozen(address: str, draw: random.Random, seconds: float) -> int:
    """Stopped at some moment; another worker finishes; then it wakes and ends."""
    child = forked(begin(address))
    time.sleep(draw.uniform(0.2, 0.8) * seconds)
    os.kill(child, signal.SIGSTOP)
    ended(forked(begin(address)))
    os.kill(child, signal.SIGCONT)
    ended(child)
    return 1


def together(address: str) -> int:
    """Two workers begin and end the run at the same time."""
    return sum(ended(child) == 0 for child in [forked(begin(address)) for _ in range(2)])


if __name__ == "__main__":
    # As a module of its own name, which the identity of a run looks for.
    from bench import object_study

    object_study.main()
