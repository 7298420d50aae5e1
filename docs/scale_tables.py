"""Tables of the page on scale: the simulated coordinator, reading back, the price of 10⁹ interventions."""

import json
from collections.abc import Callable
from typing import Any

from archives import MODELS, ROOT, heading, line

# Studies whose archives count executed interventions, by the table that holds one in each row.
MEASURED = (
    ("joint-kv", "smollm2-135m-instruct", "records"),
    ("joint-kv", "tinyllama-1.1b", "records"),
    ("search", "smollm2-135m-instruct", "candidates"),
)
MANY, UNITS = 10**9, 10**6


def speed_up() -> list[str]:
    """Two workers beside one on two cores."""
    record = _record("speed-up")
    seconds = [", ".join(f"{run['seconds']:.1f}" for run in record["runs"][n]) for n in ("1", "2")]
    return [
        *heading(0, "cores", "one worker, s", "two workers, s", "speed-up", "records that differ"),
        line(record["cores"], *seconds, f"{record['speed_up']:.2f}", record["different"]),
    ]


def simulation() -> list[str]:
    """What the simulated workers met, in ever larger directories."""
    lines = heading(0, "units in the directory", "done here", "workers", "nodes lost, frozen",
                    "units in lost hands, taken over", "late commits refused", "lost", "committed twice",
                    "simulated seconds", "without faults or stragglers", "units a core-second")  # fmt: skip
    for run in _record("coordinator")["runs"]:
        count = run["counts"].get
        lines.append(
            line(f"{run['units']:,}", f"{run['missing']:,}", f"{run['workers']:,}",
                 f"{count('nodes lost', 0)}, {count('nodes frozen', 0)}",
                 f"{count('units lost in hand', 0)}, {count('taken over from the lost', 0)}",
                 count("late commits compared and not written", 0), run["lost"], run["doubled"],
                 f"{run['simulated_seconds']:.0f}", f"{run['ideal_simulated_seconds']:.0f}",
                 f"{run['units_per_processor_second']:,}")
        )  # fmt: skip
    return lines


def operations() -> list[str]:
    """Microseconds of one core for each operation, by the size of the directory."""
    kinds = ("look", "claim", "heartbeat", "commit", "end of a claim")
    lines = heading(0, "units in the directory", "workers", *(f"{kind}, µs" for kind in kinds),
                    "looks for a unit", "a listing, s")  # fmt: skip
    for run in _record("coordinator")["runs"]:
        spent = (f"{run['microseconds'][kind]:.0f}" for kind in kinds)
        looks = run["counts"]["look"] / run["missing"]
        lines.append(
            line(f"{run['units']:,}", f"{run['workers']:,}", *spent, f"{looks:.1f}",
                 f"{run['seconds_of_a_listing']:.2g}")
        )  # fmt: skip
    return lines


def reading() -> list[str]:
    """What a unit costs to be read back, and a million of them."""
    run = _record("reading")["runs"][-1]
    ways = {
        "listed": "its name listed",
        "verified": "its hashes verified",
        "status": "`status`: hashes, checks and root",
        "tables": "`summary`: all tables read",
    }
    lines = heading(1, "a unit", "ms of one core", f"{UNITS:,} units, minutes")
    for name, words in ways.items():
        each = run["milliseconds_per_unit"][name]
        lines.append(line(words, f"{each:.3g}", f"{each * UNITS / 6e4:.2g}"))
    size = run["bytes_per_unit"] * UNITS / 1e9
    files = run["files_per_unit"] * UNITS / 1e6
    return [*lines, line("its files", f"{run['files_per_unit']:.0f} files, {run['bytes_per_unit']:,} bytes",
                         f"{files:.0f} million files, {size:.1f} GB")]  # fmt: skip


def costs() -> list[str]:
    """What 10⁹ executed interventions would cost at the measured price of one."""
    lines = heading(2, "model", "study", "executed and recorded", "seconds of a core each",
                    "bytes archived each", "10⁹: core-hours", "10⁹: archived",
                    "hours on 10⁴ cores")  # fmt: skip
    for study, model, table in MEASURED:
        folder = ROOT / "results" / study / model
        manifest = json.loads((folder / "manifest.json").read_text())
        number = manifest["rows"][table]
        # One thread, on machines that also did other things: an upper bound.
        each = (
            manifest["seconds"]["total"]
            * int(manifest["identity"]["made_with"]["threads"])
            / number
        )
        size = sum((folder / name).stat().st_size for name in manifest["sha256"]) / number
        hours = MANY * each / 3600
        lines.append(
            line(MODELS[model], study, f"{number:,}", f"{each:.2g}", f"{size:.0f}",
                 f"{hours:.2g}", f"{MANY * size / 1e9:.0f} GB", f"{hours / 1e4:.2g}")
        )  # fmt: skip
    return lines


def _record(name: str) -> dict[str, Any]:
    return json.loads((ROOT / "results" / "faults" / f"{name}.json").read_text())


TABLES: dict[str, Callable[[], list[str]]] = {
    "scale-speed-up": speed_up,
    "scale-simulation": simulation,
    "scale-operations": operations,
    "scale-reading": reading,
    "scale-costs": costs,
}
