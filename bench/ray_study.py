"""What a run on a Ray cluster survives: a node killed, the driver killed, two drivers on one directory.

    python -m bench.ray_study --save results/faults/ray.json

The nodes are real ones of Ray, several on one machine (`ray.cluster_utils`), with members of one core each;
the study is that of `bench.fault_study`. Whatever happened, the records must be those of one process. Exit
code 1 if a unit was lost, committed twice or has other bytes.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.fault_study import STUDY, FaultSettings, commits, hashes
from finite_calculus.harness import directory, registry
from finite_calculus.harness.ray_cluster import RayCluster
from finite_calculus.harness.runner import run

ROOT = Path(__file__).parents[1]
QUIET: dict[str, Any] = {"include_dashboard": False, "object_store_memory": 80 << 20}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="of every fault")
    parser.add_argument("--units", type=int, default=60)
    parser.add_argument("--nodes", type=int, default=3)
    parser.add_argument("--only", default="", help="the name of one fault")
    parser.add_argument("--save", type=Path, default=None)
    parser.add_argument("--drive", default=None, help=argparse.SUPPRESS)
    parser.add_argument("--out", type=Path, default=None, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    settings = FaultSettings(units=options.units, work=0.1)
    if options.drive is not None:
        import ray

        ray.init(address=options.drive, log_to_driver=False)
        options.out.with_suffix(".driver").write_text(ray.get_runtime_context().get_node_id())
        RayCluster(options.drive, options.nodes)(STUDY, settings, options.out)
        return
    with tempfile.TemporaryDirectory(prefix="ray-study-") as place:
        tally = study(Path(place), settings, options.nodes, options.rounds, options.only)
    tally["command"] = (
        f"python -m bench.ray_study --rounds {options.rounds} --units {options.units} "
        f"--nodes {options.nodes}"
    )
    print(json.dumps(tally, indent=1))
    if options.save is not None:
        options.save.write_text(json.dumps(tally, indent=1) + "\n")
    counts = [each for each in tally.values() if isinstance(each, dict)]
    sys.exit(any(each["lost"] or each["doubled"] or each["different"] for each in counts))


def study(
    place: Path, settings: FaultSettings, nodes: int, rounds: int, only: str
) -> dict[str, Any]:
    """Every fault in turn, on a cluster of its own."""
    install(place)
    from ray.cluster_utils import Cluster

    run(STUDY, settings, place / "whole")
    whole = hashes(place / "whole")
    faults: dict[str, Callable[[Any, Path], int]] = {
        "a node killed": node_killed,
        "the driver killed": driver_killed,
        "two drivers": two_drivers,
    }
    tally: dict[str, Any] = {}
    for name, fault in faults.items():
        if only not in ("", name):
            continue
        counted = {"runs": 0, "errors": 0, "lost": 0, "doubled": 0, "different": 0}
        for number in range(rounds):
            cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, **QUIET})
            for _ in range(nodes - 1):
                cluster.add_node(num_cpus=1, **QUIET)
            out = place / f"{name.replace(' ', '-')}-{number}"
            counted["runs"] += 1
            counted["errors"] += fault(cluster, out) != 0
            here = hashes(out)
            counted["lost"] += len({Path(each).parent for each in whole.keys() - here.keys()})
            counted["doubled"] += sum(count > 1 for count in commits(out).values())
            counted["different"] += here != whole
            cluster.shutdown()
        tally[name] = counted
        print(name, counted, flush=True)
    return tally


def install(place: Path) -> None:
    """The study as an installed package, for members that look for it by name."""
    folder = place / "site" / "faults-1.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: faults\nVersion: 1.0\n")
    words = f"[{registry.GROUP}]\nfaults = bench.fault_study:STUDY\n"
    (folder / "entry_points.txt").write_text(words)
    os.environ["PYTHONPATH"] = f"{place / 'site'}:{ROOT}"
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    sys.path.insert(0, str(place / "site"))


def driver(cluster: Any, out: Path) -> "subprocess.Popen[bytes]":
    """A driver as a process of its own."""
    units = json.loads((out.parent / "whole" / "run.json").read_text())["identity"]["settings"][
        "units"
    ]
    words = ["--drive", cluster.address, "--out", str(out), "--units", str(units)]
    words += ["--nodes", str(1 + len(cluster.worker_nodes))]
    return subprocess.Popen([sys.executable, "-m", "bench.ray_study", *words], cwd=ROOT)


def begun(out: Path, units: int = 5) -> None:
    """Wait until some units are finished."""
    while len(directory.entries(out)) < units:
        time.sleep(0.05)


def node_killed(cluster: Any, out: Path) -> int:
    """One of the nodes ends without a word, its member with a unit in hand."""
    driving = driver(cluster, out)
    begun(out)
    # On one machine the driver may be attached to any node; its own is not the one that ends.
    own = out.with_suffix(".driver").read_text()
    victim = next(node for node in cluster.worker_nodes if node.node_id != own)
    cluster.remove_node(victim, allow_graceful=False)
    return driving.wait()


def driver_killed(cluster: Any, out: Path) -> int:
    """The driver ends without a word, its members with it; then it is started again."""
    driving = driver(cluster, out)
    begun(out)
    driving.send_signal(signal.SIGKILL)
    driving.wait()
    return driver(cluster, out).wait()


def two_drivers(cluster: Any, out: Path) -> int:
    """Two drivers, whose members take turns with the cores that there are."""
    driving = [driver(cluster, out), driver(cluster, out)]
    return max(each.wait() for each in driving)


if __name__ == "__main__":
    # As a module of its own name, which the identity of a run looks for.
    from bench import ray_study

    ray_study.main()
