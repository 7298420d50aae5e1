"""The tables of docs/models.md: what is refused, from the code, and precisions, from the saved preflights."""

import importlib.util
import json
import sys
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

from archives import ROOT

DTYPES = ("float32", "bfloat16", "float16")
MODELS = ("embedded", "smollm2-135m-instruct")
# Checks of errors beside derived bounds, as the preflight names them.
SHOWN = (
    "head readouts replay",
    "projected writes replay",
    "gradient at the write",
    "predicted Δy",
    "predicted Δo",
    "shared path, predicted Δo",
    "two queries, predicted Δo",
)


def refusals() -> list[str]:
    """Kinds of models that are refused, families of each, and the reason that the refusal gives."""
    lines = ["| refused | as in | because |", "|---|---|---|"]
    for each in _plain_module("finite_calculus/models/refusals.py").REFUSALS.values():
        families = ", ".join(f"`{family}`" for family in each.families)
        lines.append(f"| {each.models} | {families} | {each.reason} |")
    return lines


def precisions() -> list[str]:
    """Errors of the preflight beside their bounds, in float32 and in half precision."""
    lines = [
        f"| model | check | {' | '.join(DTYPES)} |",
        "|---|---|" + "---:|" * len(DTYPES),
    ]
    for model in MODELS:
        checks = [_checks(model, dtype) for dtype in DTYPES]
        passed = [f"{sum(c['passed'] for c in each.values())} of {len(each)}" for each in checks]
        lines.append(f"| {model} | checks passed | {' | '.join(passed)} |")
        for name in SHOWN:
            cells = " | ".join(_cell(each[name]) for each in checks)
            lines.append(f"| {model} | {name} | {cells} |")
    return lines


def _cell(check: Mapping[str, Any]) -> str:
    """The error that comes nearest to its bound, that bound, and the median of bound over error."""
    median = "" if check["slack"] is None else f" ({check['slack']:.3g})"
    return f"{check['figure']:.1e} of {check['bound']:.1e}{median}"


def _checks(model: str, dtype: str) -> dict[str, dict[str, Any]]:
    name = model if dtype == "float32" else f"{model}-{dtype}"
    path = ROOT / "results" / "preflight" / f"{name}.json"
    record = json.loads(path.read_text(encoding="utf-8"))
    return {check["name"]: check for check in record["models"][model]["checks"]}


def _plain_module(path: str) -> ModuleType:
    """A module of plain data, without the packages above it, which load torch."""
    spec = importlib.util.spec_from_file_location("plain_data", ROOT / path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} must be a Python file; it cannot be loaded.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # a dataclass looks its module up by name
    spec.loader.exec_module(module)
    return module


TABLES: dict[str, Callable[[], list[str]]] = {"refusals": refusals, "precisions": precisions}
