"""An audit in blocks that any process can measure by itself, and the record that they make together.

The blocks of a check are those of `audit`, cut elsewhere: a batch keeps its seed and its size, so that the
record of merged blocks is the one that a single process writes.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from proofs.numeric import audit, stability
from proofs.numeric.audit_records import kept, part
from proofs.numeric.checks import CHECKS, CheckResult
from proofs.numeric.comparison import BATCH, ReferenceComparison, Tally
from proofs.numeric.record_files import RecordsError
from proofs.numeric.stability import Stability, allowed_bits


@dataclass(frozen=True)
class Block:
    """So many cases of a check in a precision, from a seed on; `digits` are those of the sample."""

    name: str
    dtype: str
    digits: bool
    seed: int
    cases: int


def blocks(
    function: str | None, dtypes: Sequence[str], *, cases: int, seed: int, size: int
) -> dict[str, Block]:
    """All blocks of an audit, by names in their order."""
    if not dtypes or set(dtypes) - {"float64", "float32"}:
        raise ValueError(f"`dtypes` must be float64, float32 or both; got {','.join(dtypes)!r}.")
    units: dict[str, Block] = {}
    for name in audit.selected(function):
        for dtype in dtypes:
            whole = {False: cases}
            if isinstance(CHECKS[name], ReferenceComparison):
                whole[True] = audit.sampled(cases)
            for digits, number in whole.items():
                batch, piece = _sizes(digits)
                step = -(-size // piece) * piece
                for n, start in enumerate(range(0, number, step)):
                    units[f"{name}-{dtype}-{'digits' if digits else 'cases'}-{n:06d}"] = Block(
                        name, dtype, digits, seed + start // batch, min(step, number - start)
                    )
    return units


def measured(block: Block) -> dict[str, Any]:
    """What a block's cases give, as a part of a record with settings of its own."""
    batch, size = _sizes(block.digits)
    result = _empty(block.name, block.dtype, block.digits)
    for start in range(0, block.cases, size):
        count = min(size, block.cases - start)
        piece = audit.measured_piece(
            block.name, block.dtype, block.seed + start // batch, count, digits=block.digits
        )
        result.merge(piece)  # type: ignore[arg-type]  # both are of one kind
    settings = _settings(block.name, block.digits, block.cases, block.seed)
    return part(result, block.name, block.dtype, settings)


def outcome(block: Block, found: dict[str, Any]) -> tuple[int, tuple[float, float] | None]:
    """Violations of a block, and of a sample the bits lost beside those allowed."""
    if block.digits:
        return 0, (found["bits"], found["allowed"])
    return found["violations"], None


def merged(
    parts: Iterable[tuple[str, str, bool, str]], seed: int
) -> dict[tuple[str, str], dict[str, Any]]:
    """Records of an audit from parts as (check, precision, whether of the sample, JSON), in their order."""
    whole: dict[tuple[str, str, bool], Tally | Stability] = {}
    for name, dtype, digits, text in parts:
        found = json.loads(text)
        if name not in CHECKS or found["settings"]["sources"] != _sources(name, digits):
            raise RecordsError(
                f"The run must be of the code at hand; its part of {name} in {dtype} is of other code. "
                f"Make it again."
            )
        result = whole.setdefault((name, dtype, digits), _empty(name, dtype, digits))
        kind: Any = type(result)
        earlier = kept(kind, found, found["settings"])
        assert earlier is not None  # its own settings are met
        result.merge(earlier)  # type: ignore[arg-type]  # both are of one kind
    records: dict[tuple[str, str], dict[str, Any]] = {}
    for (name, dtype, digits), result in whole.items():
        record = part(result, name, dtype, _settings(name, digits, result.cases, seed))
        if digits:
            records[name, dtype]["stability"] = record
        else:
            records[name, dtype] = record
    return records


def tally_of(record: dict[str, Any] | None, settings: dict[str, Any]) -> Tally | None:
    """The tally of a record of at least these cases, by this code; None if it is not."""
    return kept(Tally, record, settings)


def outcome_of(record: dict[str, Any]) -> CheckResult:
    """What a record says of its check."""
    tally, sample = kept(Tally, record, record["settings"]), record.get("stability")
    assert tally is not None  # its own settings are met
    return CheckResult(tally, kept(Stability, sample, sample["settings"]) if sample else None)


def _sizes(digits: bool) -> tuple[int, int]:
    """Cases of a batch, which has a seed, and of a piece."""
    return (stability.BATCH, audit.SAMPLE) if digits else (BATCH, audit.PIECE)


def _empty(name: str, dtype: str, digits: bool) -> Tally | Stability:
    return Stability(allowed_bits(dtype)) if digits else Tally(name, dtype)


def _settings(name: str, digits: bool, cases: int, seed: int) -> dict[str, Any]:
    return {"cases": cases, "seed": seed, "sources": _sources(name, digits)}


def _sources(name: str, digits: bool) -> str:
    return audit.sources(name, stability.sample) if digits else audit.sources(name)
