"""The audit: every public function on as many adversarial cases as are asked for.

Each function and precision is cut into pieces that run in parallel and are tallied; a finished tally
is a record, one JSON file, that names the sources it was made with. An audit run again takes up where
it stopped: records of as many cases or more are kept. A violation is an error beyond its derived
bound. A record holds the inputs of its worst case, so that it can be replayed.
"""

import itertools
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

from finite_calculus import rounding
from proofs.cases import Batch
from proofs.checks import CHECKS, checks_of
from proofs.comparison import BATCH, Place, Sample, Tally
from proofs.parallel import Progress, parallel
from proofs.sources import fingerprint

# One piece of work: long enough to pay for its start, short enough for a steady progress bar.
_PIECE = 4 * BATCH
_PACKAGES = ("torch", "numpy", "python-flint")
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)


def sources(name: str) -> str:
    """Hash of the code that a check runs: the function, its rounding rules, its reference, its cases."""
    return fingerprint(CHECKS[name], rounding.Tracked, Tally)


def selected(function: str | None) -> list[str]:
    """Names of the checks of one public function, or of all."""
    if function is None:
        return list(CHECKS)
    if function in CHECKS:
        return [function]
    found = [check.function for check in checks_of(function)]
    if not found:
        known = ", ".join(sorted(CHECKS))
        raise ValueError(
            f"`function` must be a checked function; got {function!r}. Known: {known}."
        )
    return found


def audit(
    names: list[str],
    dtypes: list[str],
    *,
    cases: int,
    seed: int = 0,
    jobs: int | None = None,
    out: Path | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Iterator[Tally]:
    """Tally each check in each dtype; with `out`, keep records there and skip those already made."""
    jobs = jobs or os.cpu_count() or 1
    for name, dtype in itertools.product(names, dtypes):
        settings = {"cases": cases, "seed": seed, "sources": sources(name)}
        path = out / f"{name}-{dtype}.json" if out else None
        if path is not None and (kept := _kept(path, settings)) is not None:
            progress(f"{name} {dtype}", cases, cases)
            yield kept
            continue
        tally = Tally(name, dtype)
        stage = _in_cases(progress, f"{name} {dtype}", cases)
        for _, part in parallel(stage, _tally_piece, _pieces(name, dtype, cases, seed), jobs):
            tally.merge(part)
        if path is not None:
            _write(path, tally, settings)
        yield tally


@dataclass(frozen=True)
class Replay:
    """The worst case of a record, measured again.

    `in_place` says whether the generator still draws it: it is then measured in the batch that it came
    from, so that torch takes the same paths; otherwise on its own.
    """

    record: dict[str, Any]
    case: Batch
    sample: Sample
    in_place: bool


def replay(path: Path) -> Replay:
    """Run the worst case of a record again, from the inputs that it holds."""
    record = _read(path)
    if record["worst"] is None:
        raise ValueError(f"`{path}` must hold a record with a worst case; got one without errors.")
    check, place, saved = CHECKS[record["function"]], Place(**record["worst"]), record["inputs"]
    batch, index = check.batch(record["dtype"], place.seed, place.count), place.index
    in_place = _saved(batch.only(index)) == saved
    if not in_place:
        batch, index = _restored(saved), 0
    sample = next(itertools.islice(check.measure(batch), index, None))
    return Replay(record, batch.only(index), sample, in_place)


def as_record(tally: Tally) -> dict[str, Any]:
    """A tally as plain data, with quantiles of bound over actual error."""
    data = asdict(tally)
    data["slack"] = {str(bin_): count for bin_, count in sorted(tally.slack.items())}
    data["slack_quantiles"] = {str(q): tally.slack_quantile(q) for q in _QUANTILES}
    return data


def _pieces(name: str, dtype: str, cases: int, seed: int) -> list[tuple[str, str, int, int]]:
    """(name, dtype, first seed, cases) of every piece; each batch has a seed of its own."""
    return [
        (name, dtype, seed + start // BATCH, min(_PIECE, cases - start))
        for start in range(0, cases, _PIECE)
    ]


def _tally_piece(piece: tuple[str, str, int, int]) -> Tally:
    name, dtype, seed, cases = piece
    tally = Tally(name, dtype)
    for number, start in enumerate(range(0, cases, BATCH)):
        count = min(BATCH, cases - start)
        for index, sample in enumerate(CHECKS[name].samples(dtype, seed + number, count)):
            tally.add(sample, Place(seed + number, count, index))
    return tally


def _in_cases(progress: Progress, stage: str, cases: int) -> Callable[[int, int], None]:
    return lambda done, total: progress(stage, min(cases, done * _PIECE), cases)


def _kept(path: Path, settings: dict[str, Any]) -> Tally | None:
    """The tally of a record of at least as many cases, same seed and sources; None if there is none."""
    if not path.exists():
        return None
    record = _read(path)
    made = record["settings"]
    if made["cases"] < settings["cases"] or made != {**settings, "cases": made["cases"]}:
        return None
    fields = {name: record[name] for name in Tally.__dataclass_fields__}
    fields["worst"] = Place(**fields["worst"]) if fields["worst"] else None
    fields["slack"] = Counter({int(bin_): count for bin_, count in fields["slack"].items()})
    return Tally(**fields)


def _read(path: Path) -> dict[str, Any]:
    """A record of an audit; raises if the file holds anything else."""
    try:
        record = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ValueError(
            f"`{path}` must be a record of an audit; it cannot be read: {error}."
        ) from None
    wanted = {"settings", "inputs", *Tally.__dataclass_fields__}
    if not isinstance(record, dict) or not record.keys() >= wanted:
        raise ValueError(
            f"`{path}` must be a record of an audit, as `finite-calculus audit --out DIR` writes them; "
            f"got other data. Make it again."
        )
    return record


def _write(path: Path, tally: Tally, settings: dict[str, Any]) -> None:
    """Write a record whole or not at all, a field a line."""
    versions = {package: version(package) for package in _PACKAGES}
    fields = {"settings": settings, "versions": versions, **as_record(tally), "inputs": None}
    if (worst := tally.worst) is not None:
        batch = CHECKS[tally.function].batch(tally.dtype, worst.seed, worst.count)
        fields["inputs"] = _saved(batch.only(worst.index))
    lines = [f" {json.dumps(name)}: {json.dumps(value)}" for name, value in fields.items()]
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".partial")
    draft.write_text("{\n" + ",\n".join(lines) + "\n}\n")
    draft.replace(path)


def _saved(batch: Batch) -> dict[str, Any]:
    """A batch as plain data; every float64 and float32 is written exactly."""
    return {"each": _plain(batch.each), "shared": _plain(batch.shared)}


def _restored(saved: dict[str, Any]) -> Batch:
    return Batch(*[_arrays(saved[part]) for part in ("each", "shared")])


def _plain(named: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"dtype": item.dtype.name, "data": item.tolist()}
        if isinstance(item, np.ndarray)
        else item
        for name, item in named.items()
    }


def _arrays(named: dict[str, Any]) -> dict[str, Any]:
    return {
        name: np.array(item["data"], dtype=item["dtype"]) if isinstance(item, dict) else item
        for name, item in named.items()
    }
