"""Everything that runs a model runs on a device that is not the CPU, and mixes no tensor of the two.

No accelerator is here: `tests.helpers.elsewhere` computes on the CPU and refuses what a real device would.
"""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from finite_calculus.cache import (
    cache_error,
    compare_caches,
    evict,
    execute_evictions,
    generate_with,
    named_transform,
    record,
    rounding_spread,
    watch,
)
from finite_calculus.models import Delete, Odds, ScaleValues, attach, support
from finite_calculus.models.tiny import tiny_model
from finite_calculus.search import calibrate, score
from finite_calculus.search.native import attention_weights
from tests.helpers.dispatched import dispatched
from tests.helpers.elsewhere import DEVICE, Elsewhere, elsewhere, moved

EDIT = Odds(1, (3,), 4.0)


def everything(model: Any, ids: Tensor, spread: Any) -> dict[str, Any]:
    """Numbers that a model gives, path by path and command by command."""
    with attach(model) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5, curvature=1)
        passage = instrument.passage(ids, instrument.log_probability([5, 9]))
        edits = [EDIT, Delete(2, (4,))]
        runs: dict[str, Callable[[], Any]] = {
            **{
                path: lambda path=path: instrument.execute(capture, edits, path=path).effects
                for path in ("resumed", "whole", "shared")
            },
            "heads": lambda: (
                instrument.execute(capture, [ScaleValues(1, (3,), 0.0, heads=(1,))]).effects
            ),
            "several": lambda: instrument.execute_several(capture, [tuple(edits)])[0].effect,
            "predicted": lambda: capture.predict(EDIT).effect,
            "floor": lambda: instrument.noise_floor(capture),
            "passage": lambda: instrument.execute_passage(passage, [EDIT])[0].effect,
            "second": lambda: instrument.second_order(passage, EDIT),
            "executed of a table": lambda: (
                calibrate(instrument, score(capture)).calibrated.executed
            ),
            "weights": lambda: attention_weights(instrument, capture, 1, ()),
            "generated": lambda: generate_with(instrument, capture, [EDIT], tokens=3).edited,
            "evicted": lambda: [
                plan.effect for plan in execute_evictions(instrument, capture, evict(capture, 0.5))
            ],
            "transformed": lambda: (
                cache_error(
                    instrument,
                    capture,
                    watch(model, ids, queries=3),
                    named_transform("sym8/vector"),
                ).effect
            ),
            "compared": lambda: compare_caches(
                record(model, ids), record(model, ids, chunk=2), spread
            ),
        }
        return {name: run() for name, run in runs.items()}


def test_a_device_that_is_not_the_cpu_gives_the_same_numbers(
    ids: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The device stands for one with numbers; weights that have none are refused.
    monkeypatch.setattr(support, "_check_devices", lambda model: None)
    short, spread = ids[:10], rounding_spread(tiny_model("llama"), ids[:10], probes=1)
    expected = everything(tiny_model("llama"), short, spread)
    with elsewhere():
        got = everything(moved(tiny_model("llama")), short, spread)
    assert {name: str(value) for name, value in got.items()} == {
        name: str(value) for name, value in expected.items()
    }


def test_a_model_over_two_devices_gives_the_same_numbers(
    ids: Tensor, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The device stands for one with numbers; weights that have none are refused.
    monkeypatch.setattr(support, "device_trouble", lambda model: "")
    short, spread = ids[:10], rounding_spread(tiny_model("llama"), ids[:10], probes=1)
    expected = everything(tiny_model("llama"), short, spread)
    with elsewhere():
        got = everything(split_model(), short, spread)
    assert {name: str(value) for name, value in got.items()} == {
        name: str(value) for name, value in expected.items()
    }


def split_model() -> Any:
    """A tiny model whose last layer, norm and head are on the other device."""
    model = tiny_model("llama")
    here, there = ("model.embed_tokens", "model.layers.0", "model.layers.1"), (
        "model.layers.2", "model.norm", "lm_head",
    )  # fmt: skip
    for name in there:
        moved(model.get_submodule(name))
    places = {**dict.fromkeys(here, torch.device("cpu")), **dict.fromkeys(there, DEVICE)}
    return dispatched(model, places, torch.device("cpu"))


def test_tensors_of_two_devices_are_refused_as_a_device_would() -> None:
    with elsewhere():
        there, here = torch.ones(3, device=DEVICE), torch.ones(3)
        assert isinstance(there * 2, Elsewhere)
        assert float((there * torch.tensor(2.0)).sum()) == 6
        assert torch.equal((there + here.to(DEVICE)).cpu(), 2 * here)
        for mixed in (lambda: there + here, lambda: torch.where(here > 0, there, there)):
            with pytest.raises(RuntimeError, match="must have its tensors on one device"):
                mixed()
        written = torch.zeros(3, 2, device=DEVICE)
        written[[0, 2]] = 1.0
        assert float(written.sum()) == 4
