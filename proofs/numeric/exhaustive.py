"""Every float32 there is: the scalar kernels on all 2^32 bit patterns, against float64.

How far the float64 references are off is itself measured in Arb on a sample, and the worst arguments are
decided by Arb. At the infinities a kernel must give the value that is stated for it, and NaN at every NaN.
"""

import math
from dataclasses import asdict, dataclass, field
from pathlib import Path

import flint
import numpy as np
import torch

from proofs.numeric import record_files
from proofs.numeric.kernels import KERNELS, Kernel
from proofs.numeric.parallel import Progress, parallel
from proofs.numeric.sources import fingerprint
from proofs.references.numbers import arb_precision

TARGET_ULPS = 2.0
_PATTERNS = 1 << 32
_PIECE = 1 << 24
# Small enough for the cache: the kernels pass over their arguments a few dozen times.
_SLICE = 1 << 16
_KEPT = 8
# A float64 reference off by more than this would blur the last bits of an error in float32 units.
_REFERENCE = 2.0**-40
_SAMPLE = 16
_ARB_BITS = 800
_EXPONENTS = 23, -149
_LARGEST = float(np.finfo(np.float32).max)
_SMALLEST = float(np.finfo(np.float32).smallest_subnormal)


@dataclass
class Sweep:
    """What the float32 numbers tried so far showed; two sweeps of one kernel merge.

    `worst` lists (error in ulps, argument), largest first; `violations` counts arguments where no
    number came, and infinities and NaNs where another value came than the one stated;
    `reference_error` is the largest relative error of the float64 reference on the sample.
    """

    kernel: str
    inputs: int = 0
    violations: int = 0
    worst: list[tuple[float, float]] = field(default_factory=list)
    reference_error: float = 0.0

    def merge(self, other: "Sweep") -> None:
        """Count another sweep of the same kernel too."""
        self.inputs += other.inputs
        self.violations += other.violations
        self.worst = sorted(self.worst + other.worst, reverse=True)[:_KEPT]
        self.reference_error = max(self.reference_error, other.reference_error)

    @property
    def ulps(self) -> float:
        """The largest error in units in the last place."""
        return self.worst[0][0] if self.worst else 0.0


def sources(name: str) -> str:
    """Hash of the code that the sweep of a kernel runs."""
    return fingerprint(KERNELS[name], _slice, _decide)


def sweep(
    name: str,
    *,
    jobs: int,
    out: Path | None = None,
    pieces: int | None = None,
    progress: Progress = lambda stage, done, total: None,
) -> Sweep:
    """Try a kernel on every float32, or on the first `pieces` of 256 slices spread over them.

    With `out` the record is kept there, and one made with the same sources is not made again.
    """
    if out is None or pieces is not None:
        return _sweep(name, jobs, pieces, progress)
    with record_files.writing(out) as records:
        rows = {kernel: row for kernel, row in records.sweeps.items() if kernel in KERNELS}
        record = rows.get(name)
        if record is not None and record["sources"] == sources(name):
            total = _from_record(record)
        else:
            total = _sweep(name, jobs, pieces, progress)
            rows[name] = {"sources": sources(name), "ulps": total.ulps, **asdict(total)}
        if rows != records.sweeps:
            records.sweeps = rows
            record_files.write(out, records)
    return total


def _sweep(name: str, jobs: int, pieces: int | None, progress: Progress) -> Sweep:
    whole = Sweep(name)
    items = [(name, piece) for piece in range(_PATTERNS // _PIECE)][:: _stride(pieces)]
    for _, part in parallel(lambda d, t: progress(f"{name} float32", d, t), _try, items, jobs):
        whole.merge(part)
    if whole.reference_error > _REFERENCE:
        raise ArithmeticError(
            f"the float64 reference of {name} is off by {whole.reference_error:.1e}: it cannot tell "
            f"units in the last place of float32"
        )
    whole.worst = sorted(((_decide(name, x), x) for _, x in whole.worst), reverse=True)
    return whole


def ulps(computed: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|computed − exact| in float32 units in the last place of the exact value.

    Infinity counts as the next number after the largest, so that an overflow one step too early or
    too late is one unit.
    """
    beyond = np.ldexp(1.0, 128)
    exact = np.clip(exact, -beyond, beyond)
    computed = np.clip(computed.astype(np.float64), -beyond, beyond)
    _, exponent = np.frexp(np.minimum(np.abs(exact), _LARGEST))
    mantissa_bits, smallest = _EXPONENTS
    unit = np.ldexp(1.0, np.maximum(exponent - 1 - mantissa_bits, smallest))
    return np.abs(computed - exact) / unit


def _stride(pieces: int | None) -> int:
    return 1 if pieces is None else max(1, _PATTERNS // _PIECE // pieces)


def _try(item: tuple[str, int]) -> Sweep:
    name, piece = item
    whole = Sweep(name)
    for start in range(piece * _PIECE, (piece + 1) * _PIECE, _SLICE):
        whole.merge(_slice(name, start))
    return whole


def _slice(name: str, start: int) -> Sweep:
    kernel = KERNELS[name]
    x = np.arange(start, start + _SLICE, dtype=np.uint32).view(np.float32)
    whole = Sweep(name)
    for part, measure in ((x[np.isfinite(x)], _finite), (x[~np.isfinite(x)], _not_finite)):
        if len(part):
            whole.merge(measure(kernel, part, start))
    return whole


def _not_finite(kernel: Kernel, x: np.ndarray, start: int) -> Sweep:
    below, above = kernel.at_infinity
    stated = np.select([x == np.inf, x == -np.inf], [above, below], np.nan)
    values = kernel.compute(torch.from_numpy(x)).numpy()
    right = (values == stated) | (np.isnan(values) & np.isnan(stated))
    return Sweep(kernel.name, len(x), int((~right).sum()))


def _finite(kernel: Kernel, x: np.ndarray, start: int) -> Sweep:
    with np.errstate(all="ignore"):
        exact = kernel.reference(x.astype(np.float64))
        values = kernel.compute(torch.from_numpy(x)).numpy()
        errors = ulps(values, exact)
    missing = np.isnan(errors)
    errors[missing] = np.inf
    worst = np.argpartition(errors, -_KEPT)[-_KEPT:] if len(x) > _KEPT else np.arange(len(x))
    pairs = sorted(((float(errors[i]), float(x[i])) for i in worst), reverse=True)
    reference_error = _sample_error(kernel, x, exact, start) if start % _PIECE == 0 else 0.0
    return Sweep(kernel.name, len(x), int(missing.sum()), pairs, reference_error)


def _sample_error(kernel: Kernel, x: np.ndarray, reference: np.ndarray, seed: int) -> float:
    """The largest relative error of the reference on a few arguments, in Arb."""
    places = np.random.default_rng(seed).integers(len(x), size=_SAMPLE)
    worst = 0.0
    with arb_precision(_ARB_BITS):
        for index in places:
            exact = kernel.exact(flint.arb(float(x[index])))
            size = abs(float(exact.mid()))
            if _SMALLEST < size < _LARGEST:
                gap = abs(flint.arb(float(reference[index])) - exact) / abs(exact)
                worst = max(worst, float(gap.mid()))
    return worst


def _decide(name: str, x: float) -> float:
    """The error at one argument in units in the last place, the exact value from Arb."""
    kernel = KERNELS[name]
    value = kernel.compute(torch.tensor([x], dtype=torch.float32)).numpy()
    if np.isnan(value[0]):
        return math.inf
    with arb_precision(_ARB_BITS):
        exact = kernel.exact(flint.arb(x))
        coarse = float(exact.mid())
        unit = ulps(np.zeros(1), np.array([coarse]))[0]
        if not np.isfinite(value[0]) or unit == 0:
            return float(ulps(value, np.array([coarse]))[0])
        step = abs(coarse) / unit
        return float((abs(flint.arb(float(value[0])) - exact) / flint.arb(step)).mid())


def _from_record(record: dict) -> Sweep:
    worst = [tuple(pair) for pair in record["worst"]]
    names = ("kernel", "inputs", "violations", "reference_error")
    return Sweep(**{name: record[name] for name in names}, worst=worst)
