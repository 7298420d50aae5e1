"""What it costs to read a run back, for each of its units: to list it, to verify it, to make its tables.

    python -m bench.reading --save results/faults/reading.json

On runs of the study of `bench.fault_study`, small units without work, in processor time of one core; files
and bytes of a unit are counted beside it. Two sizes of run show whether a unit costs more in a larger one.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.fault_study import STUDY, FaultSettings
from bench.ray_study import install
from finite_calculus.harness import directory
from finite_calculus.harness.records import read_saved
from finite_calculus.harness.runner import run
from finite_calculus.harness.status import status


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--units", type=int, default=800)
    parser.add_argument("--save", type=Path, default=None)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="reading-") as place:
        install(Path(place))
        sizes = (options.units // 4, options.units)
        runs = [measured(Path(place) / f"run-{units}", units) for units in sizes]
    record = {"runs": runs, "command": f"python -m bench.reading --units {options.units}"}
    print(json.dumps(record, indent=1))
    if options.save is not None:
        options.save.write_text(json.dumps(record, indent=1) + "\n")


def measured(out: Path, units: int) -> dict[str, Any]:
    """A run of so many units, made and read back."""
    settings = FaultSettings(units=units, work=0.0)
    made = milliseconds(lambda: run(STUDY, settings, out))
    record, plan = directory.read_run(out), directory.read_plan(out, "main")
    assert plan is not None
    files = [path for path in (out / directory.UNITS).rglob("*") if path.is_file()]
    ways: dict[str, Callable[[], Any]] = {
        "listed": lambda: directory.unfinished(out, list(plan.units)),
        "verified": lambda: directory.survey(out, record, plan),
        "status": lambda: status(out),
        "tables": lambda: read_saved(out),
    }
    return {
        "units": units,
        "files_per_unit": len(files) / units,
        "bytes_per_unit": round(sum(path.stat().st_size for path in files) / units),
        "milliseconds_per_unit": {
            "computed": round(made / units, 3),
            **{name: round(milliseconds(way) / units, 4) for name, way in ways.items()},
        },
    }


def milliseconds(work: Callable[[], Any]) -> float:
    """Processor time."""
    start = time.process_time()
    work()
    return 1e3 * (time.process_time() - start)


if __name__ == "__main__":
    # As a module of its own name, which the identity of a run looks for.
    from bench import reading

    reading.main()
