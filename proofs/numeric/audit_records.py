"""Records of an audit: one for each check and precision, whose worst cases can be replayed.

A record holds the tally of all cases and, under "stability", the sample that was held against the
problem. Each says with which settings and sources it was made and holds the inputs of its worst case.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from importlib.metadata import version
from typing import Any, Generic, TypeVar

import numpy as np

from proofs.numeric.cases import Batch
from proofs.numeric.checks import CHECKS
from proofs.numeric.comparison import CasePlace, ReferenceComparison, Sample, Tally
from proofs.numeric.stability import Stability, lost_bits

_PACKAGES = ("torch", "numpy", "python-flint")
_QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)

Result = TypeVar("Result", Tally, Stability)
Measured = TypeVar("Measured", Sample, float)


@dataclass(frozen=True)
class CaseReplay(Generic[Measured]):
    """A worst case of a record, measured again.

    `in_place` says whether the generator still draws it: it is then measured in the batch that it came
    from, so that torch takes the same paths; otherwise on its own.
    """

    place: CasePlace
    case: Batch
    in_place: bool
    measured: Measured


def part(
    record: Tally | Stability, name: str, dtype: str, settings: dict[str, Any]
) -> dict[str, Any]:
    """A result as plain data, with its settings and the inputs of its worst case."""
    data = asdict(record)
    if isinstance(record, Tally):
        data["slack"] = {str(bin_): count for bin_, count in sorted(record.slack.items())}
        data["slack_quantiles"] = {str(q): record.slack_quantile(q) for q in _QUANTILES}
    inputs = None
    if (worst := record.worst) is not None:
        inputs = _saved(CHECKS[name].batch(dtype, worst.seed, worst.count).only(worst.index))
    versions = {package: version(package) for package in _PACKAGES}
    return {"settings": settings, "versions": versions, **data, "inputs": inputs}


def kept(
    kind: type[Result], saved: dict[str, Any] | None, settings: dict[str, Any]
) -> Result | None:
    """An earlier result with at least as many cases, same seed and sources; None if nothing was."""
    if not saved:
        return None
    earlier = saved["settings"]
    if earlier["cases"] < settings["cases"] or earlier != {**settings, "cases": earlier["cases"]}:
        return None
    fields = {name: saved[name] for name in kind.__dataclass_fields__}
    fields["worst"] = CasePlace(**fields["worst"]) if fields["worst"] else None
    if "slack" in fields:
        fields["slack"] = Counter({int(bin_): count for bin_, count in fields["slack"].items()})
    return kind(**fields)


def replay(record: dict[str, Any]) -> CaseReplay[Sample] | None:
    """The case nearest to its bound or furthest beyond it, from the inputs that the record holds."""
    check = CHECKS[record["function"]]
    return _again(record, record, lambda batch, _: list(check.measure(batch)))


def replay_stability(record: dict[str, Any]) -> CaseReplay[float] | None:
    """The bits lost by the case that lost the most, from the inputs that the record holds."""
    check, dtype = CHECKS[record["function"]], record["dtype"]
    if not isinstance(check, ReferenceComparison):
        return None
    return _again(
        record,
        record.get("stability"),
        lambda batch, seed: lost_bits(check, dtype, batch, seed=seed),
    )


def _again(
    record: dict[str, Any],
    part: dict[str, Any] | None,
    measure: Callable[[Batch, int], list[Measured]],
) -> CaseReplay[Measured] | None:
    """The worst case of a part of a record; None if no case was worse than another."""
    if not part or part["worst"] is None:
        return None
    place, saved = CasePlace(**part["worst"]), part["inputs"]
    batch = CHECKS[record["function"]].batch(record["dtype"], place.seed, place.count)
    index = place.index
    in_place = _saved(batch.only(index)) == saved
    if not in_place:
        batch, index = Batch(_arrays(saved["each"]), _arrays(saved["shared"])), 0
    return CaseReplay(place, batch.only(index), in_place, measure(batch, place.seed)[index])


def _saved(batch: Batch) -> dict[str, Any]:
    """A batch as plain data; every float64 and float32 is written exactly.

    JSON has no numbers for infinity and NaN: they are written as text, which numpy reads.
    """
    return {"each": _plain(batch.each), "shared": _plain(batch.shared)}


def _plain(parts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: {"dtype": item.dtype.name, "data": _texts(item.tolist())}
        if isinstance(item, np.ndarray)
        else item
        for name, item in parts.items()
    }


def _texts(data: Any) -> Any:
    if isinstance(data, list):
        return [_texts(item) for item in data]
    return repr(data) if isinstance(data, float) and not math.isfinite(data) else data


def _arrays(parts: dict[str, Any]) -> dict[str, Any]:
    return {
        name: np.array(item["data"], dtype=item["dtype"]) if isinstance(item, dict) else item
        for name, item in parts.items()
    }
