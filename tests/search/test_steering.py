"""Requested ratios are achieved by the model's own attention; preserved attention stays where it was."""

import math

import pytest
import torch

from finite_calculus.models import KeyShift, Odds, attach
from finite_calculus.models.tiny import tiny_model
from finite_calculus.search import Request, attention_weights, check_preserving, steer

# Log ratios of float32 weights from a float32 query: some dozen roundings of scores of size ten.
NATIVE = 1e-4


@pytest.mark.parametrize("name", ["embedded", "llama"])
def test_requested_ratios_after_a_shift_are_achieved_natively(name, request) -> None:
    pair = request.getfixturevalue(name)
    requests = [Request(4, 1, 4.0), Request(2, 3, 1.0)]
    shift = KeyShift(1, (4,), 5.0)
    steering = steer(pair.instrument, pair.capture, 1, 1, requests, shift=shift)
    assert steering.control.feasible
    for wanted, achieved in zip((4.0, 1.0), steering.achieved, strict=True):
        assert abs(math.log(achieved / wanted)) <= NATIVE
    # The shift alone did move the first pair, and nothing was achieved before.
    assert abs(math.log(steering.shifted[0] / steering.before[0])) > 100 * NATIVE
    assert abs(math.log(steering.shifted[0] / 4.0)) > 100 * NATIVE


def test_only_the_named_head_changes(embedded) -> None:
    steering = steer(embedded.instrument, embedded.capture, 2, 1, [Request(4, 1, 4.0)])
    before = attention_weights(embedded.instrument, embedded.capture, 2, ())
    after = attention_weights(embedded.instrument, embedded.capture, 2, steering.edits)
    changed = (before != after).any(-1)
    assert changed.tolist() == [False, True, False, False]
    # Float32: a sum of n terms is rounded n − 1 times, and each weight once more.
    slack = after.shape[-1] * torch.finfo(torch.float32).eps
    assert float((after.sum(-1) - 1).abs().max()) <= slack


def test_native_weights_are_those_of_the_replay(embedded) -> None:
    weights = attention_weights(embedded.instrument, embedded.capture, 1, ())
    assert float((weights - embedded.capture.readout(1).probs).abs().max()) <= 1e-5


def test_a_request_that_cannot_be_met_reports_its_residual(embedded) -> None:
    # 24 coordinates of a head cannot set 60 ratios.
    requests = [Request(token, 0, 2.0 + (token % 3)) for token in range(1, 61)]
    steering = steer(embedded.instrument, embedded.capture, 1, 0, requests)
    assert not steering.control.feasible
    assert float(steering.control.residual.abs().max()) > 1e-3


def test_preserving_directions_keep_attention_and_others_do_not(llama, embedded) -> None:
    short = check_preserving(llama.instrument, llama.capture, 1, 2)
    # Seven keys leave six differences to control, fewer than the head is wide.
    assert (short.inputs, short.rank, short.kept) == (48, 6, 42)
    wide = check_preserving(embedded.instrument, embedded.capture, 2, 1)
    assert (wide.inputs, wide.rank, wide.kept) == (96, 24, 72)
    for check in (short, wide):
        assert check.moved <= 1e-5
        assert check.response <= check.bound
        assert check.other > 1e-4


def test_a_sink_counts_among_the_weights_that_are_preserved() -> None:
    ids = torch.randint(3, 96, (8,), generator=torch.Generator().manual_seed(3))
    with attach(tiny_model("gpt_oss")) as instrument:
        capture = instrument.capture(ids, answer=5, versus=9)
        check = check_preserving(instrument, capture, 2, 0)
    # Eight keys and the sink leave eight differences; without its row a direction that moves all eight
    # scores alike would count as preserving and take attention from the sink.
    assert (check.inputs, check.rank, check.kept) == (48, 8, 40)
    assert check.moved <= 1e-5
    assert check.response <= check.bound


def test_bad_requests_are_refused(embedded, llama) -> None:
    with pytest.raises(ValueError, match="`ratio` must be positive"):
        Request(1, 2, 0.0)
    with pytest.raises(ValueError, match="`head` must lie in"):
        steer(embedded.instrument, embedded.capture, 1, 99, [Request(1, 2, 2.0)])
    with pytest.raises(ValueError, match="must not contradict"):
        steer(
            embedded.instrument,
            embedded.capture,
            1,
            0,
            [Request(1, 2, 2.0), Request(1, 2, 3.0)],
        )
    with pytest.raises(ValueError, match="keys or queries only"):
        attention_weights(llama.instrument, llama.capture, 1, (Odds(1, (2,), 3.0),))
