"""The timing protocol of the paper: warmed up, in turns of random order, each for at least a fixed time."""

import random
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch

ROUNDS, AT_LEAST = 5, 0.12  # the paper's rounds, and seconds of each measurement

Clock = Callable[[], float]


def take_turns(
    functions: Mapping[str, Callable[[], Any]],
    *,
    rounds: int = ROUNDS,
    at_least: float | int = AT_LEAST,
    clock: Clock = time.perf_counter,
) -> dict[str, list[float]]:
    """Seconds of a call of each function in every round, in which they take turns in random order.

    In a round each function is called until `at_least` seconds have passed.
    """
    order = random.Random(0)
    times: dict[str, list[float]] = {name: [] for name in functions}
    for _ in range(rounds):
        for name in order.sample(list(functions), len(functions)):
            times[name].append(_once(functions[name], at_least, clock))
    return times


def finished(function: Callable[[], Any], device: torch.device) -> Callable[[], Any]:
    """The function with all of its work done when it returns, also on an accelerator."""
    if device.type == "cpu":
        return function

    def waiting() -> Any:
        result = function()
        torch.accelerator.synchronize(device)
        return result

    return waiting


def _once(function: Callable[[], Any], at_least: float | int, clock: Clock) -> float:
    """Seconds per call."""
    calls, start = 0, clock()
    while True:
        function()
        calls += 1
        passed = clock() - start
        if passed >= at_least:
            return passed / calls
