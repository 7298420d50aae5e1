"""How much faster two workers are than one: the joint study on `embedded`, one thread each.

    python -m bench.speed_up --save results/faults/speed-up.json

Runs take turns, one worker and two, in processes of their own from the command line on; on the clock from the
first unit's commit to the last one's, so that start-up and the gate, which one process passes for all, do not
count (they are told beside it). Run it on a machine that does nothing else and has two cores.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from bench.fault_study import hashes


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--pairs", type=int, default=96)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", type=Path, default=None)
    options = parser.parse_args()
    runs: dict[int, list[dict[str, float]]] = {1: [], 2: []}
    seen = set()
    with tempfile.TemporaryDirectory(prefix="speed-up-") as place:
        for number in range(options.rounds):
            for workers, timed in runs.items():
                out = Path(place) / f"{workers}-{number}"
                timed.append(measured(out, workers, options.pairs))
                seen.add(json.dumps(hashes(out), sort_keys=True))
    seconds = {workers: median(run["seconds"] for run in timed) for workers, timed in runs.items()}
    record: dict[str, Any] = {
        "speed_up": round(seconds[1] / seconds[2], 3),
        "different": len(seen) - 1,
        "runs": runs,
        "cores": os.cpu_count(),
        "command": f"python -m bench.speed_up --pairs {options.pairs} --rounds {options.rounds}",
    }
    print(json.dumps(record, indent=1))
    if options.save is not None:
        options.save.write_text(json.dumps(record, indent=1) + "\n")
    sys.exit(record["different"])


def measured(out: Path, workers: int, pairs: int) -> dict[str, float]:
    """One run, in seconds: of its units, and in all."""
    words = ["run", "joint-kv", "--task", "retrieval", "--layers", "all", "--pairs", str(pairs)]
    words += ["--workers", str(workers), "--threads", "1", "--out", str(out), "--quiet"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    start = time.monotonic()
    subprocess.run([sys.executable, "-m", "finite_calculus", *words], env=environment, check=True)
    lines = (out / "run.log").read_text().splitlines()
    times = [
        datetime.strptime(" ".join(line.split()[:2]), "%Y-%m-%d %H:%M:%S,%f")
        for line in lines
        if line.split()[5:6] == ["in"]
    ]
    units = (times[-1] - times[0]).total_seconds() * len(times) / (len(times) - 1)
    return {"seconds": round(units, 2), "in_all": round(time.monotonic() - start, 2)}


if __name__ == "__main__":
    main()
