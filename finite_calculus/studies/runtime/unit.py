"""One case: every method in every mode, in turns, and an audit of what they compute."""

import os
import platform
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from finite_calculus.harness import Check, UnitResult, compare
from finite_calculus.margin import head_gradient
from finite_calculus.models import Instrument, LayerCapture
from finite_calculus.studies.runtime.attention import (
    Inputs,
    dense,
    draw,
    fused,
    prepare_dense,
    prepare_sparse,
    sparse,
)
from finite_calculus.studies.runtime.audit import exact_responses, response_spread
from finite_calculus.studies.runtime.rows import MODES, Audit, Machine, Timing
from finite_calculus.studies.runtime.settings import RuntimeSettings
from finite_calculus.studies.runtime.timing import finished, take_turns
from finite_calculus.tasks.pairs import PairTokens

STRENGTHS = (0.1, 0.5, 1.0)
_ALL = {"dense": dense, "ours": sparse, "fused": fused}
_PREPARED = {"dense": prepare_dense, "ours": prepare_sparse}


@dataclass(frozen=True)
class Case:
    """A native capture of a pair at a layer, or a synthetic bank of so many tokens and candidates."""

    name: str
    pair: PairTokens | None = None
    layer: int = 0
    tokens: int = 0
    candidates: int = 0


def run_case(instrument: Instrument, settings: RuntimeSettings, case: Case) -> UnitResult:
    """Time a case and audit it."""
    device = next(instrument.model.parameters()).device
    with torch.inference_mode():
        drawn = draw(case.tokens, case.candidates) if case.pair is None else None
    inputs = native_inputs(instrument, case.pair, case.layer) if case.pair else drawn
    assert inputs is not None  # a case is one or the other
    inputs = inputs.to(device)
    with torch.inference_mode():
        timings = _timings(settings, case, inputs)
        audits, checks = _audits(case, inputs)
    return UnitResult(
        {"timings": timings, "audits": audits, "machines": [machine(case.name, device)]}, checks
    )


def native_inputs(instrument: Instrument, pair: PairTokens, number: int) -> Inputs:
    """A captured layer of a pair: its spans are the candidates, the donor's their replacements."""
    answer, versus = pair.labels
    layer, donor = (
        instrument.capture(ids, answer=answer, versus=versus, layers=[number]).layer(number)
        for ids in (pair.baseline, pair.donor)
    )
    lengths = {stop - start for start, stop in pair.spans}
    if len(lengths) > 1:
        raise ValueError(
            f"The spans of a native case must have one length; got {sorted(lengths)}. Use a model whose "
            f"tokenizer gives every record the same number of tokens."
        )
    _require_plain(layer)
    groups = layer.keys.shape[0]
    gradient = head_gradient(layer.output_projection, layer.gradient_write)
    starts = torch.tensor([layer.column(start) for start, _ in pair.spans])
    index = starts.unsqueeze(-1) + torch.arange(lengths.pop())
    return Inputs(
        query=layer.query.reshape(groups, layer.heads // groups, -1),
        keys=layer.keys,
        values=layer.values,
        gradient=gradient.reshape(groups, layer.heads // groups, -1),
        starts=starts,
        donor_keys=donor.keys[:, index],
        donor_values=donor.values[:, index],
        strengths=torch.tensor(STRENGTHS[-1:]),
        scaling=layer.scaling,
    )


def machine(case: str, device: torch.device) -> Machine:
    """What this process runs on, by name."""
    place = device.type
    if device.type == "cuda":
        place = f"{device.type}: {torch.cuda.get_device_name(device)}"
    return Machine(
        case,
        processor_name(Path("/proc/cpuinfo")),
        os.cpu_count() or 1,
        torch.get_num_threads(),
        place,
        torch.__version__,
    )


def processor_name(listing: Path) -> str:
    """The processor as Linux names it; elsewhere as Python does."""
    named = None
    if listing.is_file():
        named = re.search(r"^model name\s*:\s*(.+)$", listing.read_text(), flags=re.MULTILINE)
    return named[1].strip() if named else platform.processor() or platform.machine()


def _timings(settings: RuntimeSettings, case: Case, inputs: Inputs) -> list[Timing]:
    shape = {
        "tokens": inputs.keys.shape[1],
        "candidates": len(inputs.starts),
        "members": inputs.members,
        "heads": inputs.heads,
        "groups": inputs.keys.shape[0],
        "width": inputs.keys.shape[2],
    }
    rows = []
    for mode in MODES:
        functions = _functions(mode, inputs)
        for function in functions.values():
            function()
        times = take_turns(functions, rounds=settings.rounds, at_least=settings.at_least)
        rows += [
            Timing(case.name, **shape, mode=mode, method=method, round=number, seconds=seconds)
            for method, listed in times.items()
            for number, seconds in enumerate(listed)
        ]
    return rows


def _functions(mode: str, inputs: Inputs) -> dict[str, Callable[[], Any]]:
    """The methods of a mode; fused attention has nothing to prepare."""
    functions: dict[str, Callable[[], Any]] = {}
    if mode == "prepared":
        for name, prepare in _PREPARED.items():
            evaluate = prepare(inputs)
            functions[name] = lambda evaluate=evaluate: evaluate(inputs.strengths)
    else:
        strengths = STRENGTHS if mode == "three" else STRENGTHS[-1:]
        asked = replace(inputs, strengths=inputs.strengths.new_tensor(strengths))
        for name, method in _ALL.items():
            functions[name] = lambda method=method: method(asked)
    device = inputs.keys.device
    return {name: finished(function, device) for name, function in functions.items()}


def _audits(case: Case, inputs: Inputs) -> tuple[list[Audit], list[Check]]:
    asked = replace(inputs, strengths=inputs.strengths.new_tensor(STRENGTHS))
    expected, spread = exact_responses(asked), response_spread(asked)
    rows: list[Audit] = []
    sure: list[tuple[float, float]] = []
    likely: list[tuple[float, float]] = []
    for name, method in _ALL.items():
        apart = (method(asked).double() - expected).abs()
        worst = int((apart / spread.probable).argmax())
        figures = [float(x.flatten()[worst]) for x in (apart, spread.probable, spread.sure)]
        rows.append(Audit(case.name, name, float(expected.abs().max()), *figures))
        sure += _listed(apart, spread.sure)
        likely += _listed(apart, spread.probable)
    return rows, [
        compare("float32 responses against float64", sure),
        compare("float32 responses against float64, probable bound", likely),
    ]


def _listed(figures: Tensor, bounds: Tensor) -> list[tuple[float, float]]:
    return list(zip(figures.flatten().tolist(), bounds.flatten().tolist(), strict=True))


def _require_plain(layer: LayerCapture) -> None:
    if layer.softcap is not None or layer.sinks is not None or not bool(layer.attended.all()):
        raise ValueError(
            f"Layer {layer.layer} must be plain softmax attention over all keys for a native case; it is "
            f"not. Choose another layer or model."
        )
