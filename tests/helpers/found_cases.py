"""Cases that broke a check: told in words, saved by the nightly run, and replayed by the tests ever after.

A case is kept as JSON with every number in hexadecimal, so that it is the same bits on every machine and in
every version of hypothesis. While a failure shrinks each smaller case replaces the last.
"""

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from proofs.numeric.cases import Batch
from proofs.numeric.checks import CHECKS
from proofs.numeric.comparison import Check, ReferenceComparison, as_lists
from proofs.references.numbers import prove

FOLDER = Path(__file__).parent.parent / "found"


@functools.cache
def inputs_of(name: str) -> frozenset[str]:
    """The arguments that a check uses: those without which it cannot be measured."""
    check = CHECKS[name]
    batch = check.batch("float64", 1, 2)
    return frozenset(
        argument
        for argument in (*batch.each, *batch.shared)
        if not _is_measured(check, _without(batch, argument))
    )


def violation(name: str, batch: Batch) -> str | None:
    """What is wrong with the first case that breaks a check: its inputs, computed, exact, error, bound."""
    check = CHECKS[name]
    for index, sample in enumerate(check.measure(batch)):
        if not sample.over_bound <= 1:
            pairs = zip(sample.errors, sample.bounds, strict=True)
            # `not <=`, so that NaN counts as the worst.
            ratios = [e / b if b > 0 else np.inf for e, b in pairs]
            worst = int(np.argmax([np.inf if np.isnan(ratio) else ratio for ratio in ratios]))
            lines = [f"{name}: entry {worst} of case {index} is beyond its bound"]
            lines += _values(check, batch, index, worst)
            lines += [f"error    {sample.errors[worst]!r}", f"bound    {sample.bounds[worst]!r}"]
            lines += [f"{key} = {item}" for key, item in as_lists(batch.case(index)).items()]
            return "\n".join(lines)
    return None


def save(name: str, dtype: str, batch: Batch, folder: Path = FOLDER) -> Path:
    """Keep a batch that broke a check, in place of a larger one that did."""
    folder.mkdir(exist_ok=True)
    target = folder / f"{name}.{dtype}.json"
    parts = {"each": batch.each, "shared": batch.shared}
    data = {part: {key: _text(item) for key, item in of.items()} for part, of in parts.items()}
    target.write_text(json.dumps({"check": name, "dtype": dtype, **data}, indent=1) + "\n")
    return target


def saved(folder: Path = FOLDER) -> Iterator[tuple[str, str, Batch]]:
    """Every kept batch with its check and dtype."""
    for file in sorted(folder.glob("*.json")):
        data = json.loads(file.read_text())
        each, shared = ({k: _item(v) for k, v in data[p].items()} for p in ("each", "shared"))
        yield data["check"], data["dtype"], Batch(each, shared)


def _values(check: Check, batch: Batch, index: int, worst: int) -> list[str]:
    """The computed and the exact number, where there is a reference."""
    if not isinstance(check, ReferenceComparison):
        return []
    values, bounds = next(iter(check.computed(batch.only(index))))
    exact, bits = prove(check.reference, as_lists(batch.case(index)), bounds)
    return [f"computed {values[worst]!r}", f"exact    {exact[worst].str(30)}, {bits} bits"]


def _without(batch: Batch, name: str) -> Batch:
    parts = ({k: v for k, v in of.items() if k != name} for of in (batch.each, batch.shared))
    return Batch(*parts)


def _is_measured(check: Check, batch: Batch) -> bool:
    try:
        return bool(batch.each) and bool(list(check.measure(batch)))
    except (KeyError, TypeError):
        return False


def _text(item: Any) -> Any:
    if not isinstance(item, np.ndarray):
        return item.item() if isinstance(item, np.generic) else item
    flat = item.ravel().tolist()
    numbers = [x.hex() for x in flat] if item.dtype.kind == "f" else flat
    return {"dtype": str(item.dtype), "shape": item.shape, "numbers": numbers}


def _item(text: Any) -> Any:
    if not isinstance(text, dict):
        return text
    dtype = np.dtype(text["dtype"])
    numbers = map(float.fromhex, text["numbers"]) if dtype.kind == "f" else text["numbers"]
    return np.array(list(numbers), dtype).reshape(text["shape"])
