"""The gate for a cache: what a transform of keys and values must not do, as checks with a verdict for CI.

A transform must keep shapes and finite numbers, give the same again, let no later token reach an earlier one,
and change the writes by no more than it is allowed: by rounding alone, unless an allowance is given.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import torch
from torch import Tensor
from transformers import PreTrainedModel

from finite_calculus.cache.comparing import CacheComparison, compare_caches
from finite_calculus.cache.records import CacheRecord, Transform, record, transformed
from finite_calculus.cache.rounding_noise import Spread, rounding_spread
from finite_calculus.cache.watching import watch


@dataclass(frozen=True)
class GateCheck:
    """One check: whether it passed, and its figures in words."""

    name: str
    passed: bool
    words: str


@dataclass(frozen=True)
class GateReport:
    """All checks of a transform on a model."""

    transform: str
    checks: tuple[GateCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether the gate is open."""
        return all(check.passed for check in self.checks)

    def content(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "transform": self.transform,
            "passed": self.passed,
            "checks": [asdict(c) for c in self.checks],
        }

    def save_junit(self, path: Path) -> None:
        """As JUnit XML, a test case for each check."""
        failures = sum(not check.passed for check in self.checks)
        suite = ElementTree.Element(
            "testsuite",
            name=f"preflight of {self.transform}",
            tests=str(len(self.checks)),
            failures=str(failures),
        )
        for check in self.checks:
            case = ElementTree.SubElement(
                suite, "testcase", name=check.name, classname=self.transform
            )
            if not check.passed:
                ElementTree.SubElement(case, "failure", message=check.words)
            else:
                ElementTree.SubElement(case, "system-out").text = check.words
        ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)


def transform_gate(
    model: PreTrainedModel,
    transform: Transform,
    ids: Sequence[int] | Tensor,
    *,
    name: str = "transform",
    allow: float | None = None,
    precision: str = "float32",
) -> GateReport:
    """Check a transform on one prompt; `allow` is the largest relative change of a write, mean over queries.

    Without an allowance the transformed cache must equal the ordinary one up to rounding of `precision`.
    """
    prompt = torch.as_tensor(ids)
    ordinary, spread = record(model, prompt), rounding_spread(model, prompt)
    shapes = _attempt("shapes and finite numbers", lambda: _same_again(ordinary, transform))
    if not shapes.passed:
        return GateReport(name, (shapes,))
    checks = [shapes, _causal(model, prompt, transform, spread, precision)]
    changed = record(model, prompt, transform=transform)
    if allow is None:
        compared = compare_caches(ordinary, changed, spread, precision=precision)
        checks.append(_verdict("no change beyond rounding", compared))
    else:
        checks.append(_allowed(model, prompt, transform, allow))
    return GateReport(name, tuple(checks))


def _attempt(name: str, check: Callable[[], str]) -> GateCheck:
    try:
        words = check()
    except ValueError as error:
        return GateCheck(name, False, str(error))
    return GateCheck(name, not words, words or "as required")


def _same_again(ordinary: CacheRecord, transform: Transform) -> str:
    """What is wrong with the transform's results, or nothing."""
    for number, pair in enumerate(zip(ordinary.keys, ordinary.values, strict=True)):
        once = transformed(transform, *pair, number)
        again = transformed(transform, *pair, number)
        if not all(map(torch.equal, once, again)):
            return f"layer {number}: the same keys and values gave other results the second time"
    return ""


def _causal(
    model: PreTrainedModel, prompt: Tensor, transform: Transform, spread: Spread, precision: str
) -> GateCheck:
    """Whether another last token changes anything before it."""
    size = model.config.get_text_config(decoder=True).vocab_size
    other = prompt.clone()
    other[-1] = (int(prompt[-1]) + size // 2) % size
    first, second = (_before_last(record(model, x, transform=transform)) for x in (prompt, other))
    allowed = Spread(
        *(tuple(x[:, :-1] for x in spread.part(name)) for name in ("keys", "values", "outputs"))
    )
    compared = compare_caches(first, second, allowed, precision=precision)
    return _verdict("no later token reaches an earlier one", compared)


def _before_last(cache: CacheRecord) -> CacheRecord:
    return CacheRecord(
        *(tuple(x[:, :-1] for x in cache.part(n) or ()) for n in ("keys", "values", "outputs"))
    )


def _verdict(name: str, compared: CacheComparison) -> GateCheck:
    if compared.first is None:
        worst = max(max(x.keys, x.values, x.outputs or 0.0) for x in compared.layers)
        return GateCheck(name, True, f"rounding: at most {worst:.2g} of what rounding allows")
    first = compared.first
    return GateCheck(
        name,
        False,
        f"layer {first.layer}, {first.part} of heads {list(first.heads)}, tokens {list(first.tokens)[:8]}: "
        f"{first.ratio:.3g} times what rounding allows; {first.guess}",
    )


def _allowed(
    model: PreTrainedModel, prompt: Tensor, transform: Transform, allow: float
) -> GateCheck:
    worst, where = 0.0, 0
    for window in watch(model, prompt, queries=min(16, len(prompt) - 1)):
        keys, values = transformed(transform, window.keys, window.values, window.layer)
        changed = replace(window, keys=keys, values=values)
        apart = (changed.writes() - window.writes()).norm(dim=-1) / window.sizes()
        if float(apart.mean()) >= worst:
            worst, where = float(apart.mean()), window.layer
    words = f"largest mean ‖Δo‖/‖o‖ {worst:.4g} at layer {where}; allowed {allow:g}"
    return GateCheck("writes change by no more than allowed", worst <= allow, words)
