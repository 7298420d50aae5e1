"""Kill a study with SIGKILL at random moments and compare what it ends in with an unbroken run.

    python bench/kill_study.py --kills 50 --save results/kill-study.json

A moment is drawn uniformly over the time that the unbroken run took, start-up and preflight included,
so that kills fall before, between and inside units. Whenever a run ends before its kill, its units are
put aside and it begins anew, until the kills are used up. Records must be identical byte for byte;
seals hold times and are not compared. Exit code 1 if anything differs.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

RUN = [
    *("-m", "finite_calculus", "run", "joint-kv", "--model", "embedded", "--task", "retrieval"),
    *("--layers", "2,3", "--quiet"),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--pairs", type=int, default=8)
    parser.add_argument("--seed", type=int, default=981)
    parser.add_argument("--work", type=Path, default=None, help="where the runs go; kept")
    parser.add_argument("--save", type=Path, default=None, help="write what was seen as JSON")
    options = parser.parse_args()
    work = options.work or Path(tempfile.mkdtemp(prefix="kill-study-"))
    whole, seconds = unbroken(work / "whole", options.pairs)
    print(f"unbroken run: {len(whole)} files in {seconds:.1f} s", flush=True)
    tally = kill_often(work / "killed", whole, options.kills, options.pairs, seconds, options.seed)
    command = f"python bench/kill_study.py --kills {options.kills} --pairs {options.pairs}"
    tally |= {"files": len(whole), "command": f"{command} --seed {options.seed}"}
    print(json.dumps(tally))
    if options.save is not None:
        options.save.write_text(json.dumps(tally, indent=1) + "\n")
    sys.exit(0 if tally["different"] == 0 and tally["kills"] == options.kills else 1)


def unbroken(out: Path, pairs: int) -> tuple[dict[str, str], float]:
    """Hashes of a run that nothing interrupts, and how long it took."""
    start = time.monotonic()
    if begin(out, pairs).wait() != 0:
        sys.exit("the unbroken run failed; see its run.log")
    return hashes(out), time.monotonic() - start


def kill_often(
    out: Path, whole: dict[str, str], kills: int, pairs: int, seconds: float, seed: int
) -> dict[str, Any]:
    """Start and kill until the kills are used up, then let it finish; count what was seen."""
    draw, tally = random.Random(seed), Counter(kills=0, finished=0, different=0, leftovers=0)
    while tally["kills"] < kills:
        process = begin(out, pairs)
        try:
            process.wait(timeout=draw.uniform(0.0, seconds))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            process.wait()
            tally["kills"] += 1
            tally["leftovers"] += len(list(out.glob("**/*.part")))
        else:
            tally["finished"] += 1
            tally["different"] += hashes(out) != whole
            shutil.rmtree(out / "units")
    if begin(out, pairs).wait() != 0:
        sys.exit("the last run failed; see its run.log")
    tally["finished"] += 1
    tally["different"] += hashes(out) != whole
    return dict(tally)


def begin(out: Path, pairs: int) -> subprocess.Popen[bytes]:
    """Start the command in a process of its own."""
    command = [sys.executable, *RUN, "--pairs", str(pairs), "--out", str(out)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)


def hashes(out: Path) -> dict[str, str]:
    """sha256 of every file of the units and weights but the seals."""
    return {
        path.relative_to(out).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()
        for part in ("units", "weights")
        for path in sorted((out / part).rglob("*"))
        if path.is_file() and path.name != "seal.json"
    }


if __name__ == "__main__":
    main()
