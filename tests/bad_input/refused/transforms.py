"""Tensors inside torch's transforms where numbers, bounds or one device are needed."""

import warnings

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import grad, jvp, vmap

import finite_calculus as fc
from tests.bad_input.inputs import HEADS, KEYS, WIDTH, one_head, projection, rotary
from tests.bad_input.refusal import TYPE, VALUE, Refusal
from tests.helpers.tensors import draw

RUNTIME = RuntimeError


def _fake() -> None:
    with FakeTensorMode() as mode:
        fc.track(mode.from_tensor(draw(2)))


def _forward() -> None:
    with warnings.catch_warnings(action="ignore", category=DeprecationWarning):  # torch's own
        jvp(fc.track, (draw(3),), (draw(3),))


def _evict(scores: torch.Tensor, values: torch.Tensor) -> fc.EvictionPlan:
    groups = torch.eye(KEYS, dtype=torch.bool, device=scores.device)
    weight = PROJECTION.to(scores.device)
    return fc.select_evictions(fc.freeze(scores, values), groups, weight, 1.0)


PROJECTION = projection()
BATCH = (draw(2, HEADS, KEYS), draw(2, HEADS, KEYS, WIDTH))
META = tuple(x[0].to("meta") for x in BATCH)

TRANSFORMS = [
    Refusal(
        "evictions under vmap",
        lambda: vmap(_evict)(*BATCH),
        RUNTIME,
        "`select_evictions` must read the numbers of `readout` … got a tensor inside torch.func.vmap",
    ),
    Refusal(
        "evictions on meta",
        lambda: _evict(*META),
        RUNTIME,
        "`select_evictions` must read the numbers of `groups` … got a tensor on the device 'meta'",
    ),
    Refusal(
        "preserving directions of a mask on meta",
        lambda: fc.preserving_directions(
            torch.empty(3, 4, device="meta"), mask=torch.empty(3, device="meta").bool()
        ),
        RUNTIME,
        "`preserving_directions` must read the numbers of `mask`",
    ),
    Refusal(
        "a certificate under grad",
        lambda: grad(lambda d: fc.certify(one_head(), d, draw(KEYS, WIDTH), draw(WIDTH)).bound)(
            draw(KEYS)
        ),
        RUNTIME,
        "must be tracked on constants … got a tensor that torch.func differentiates … detach()",
    ),
    Refusal(
        "tracking under jvp",
        _forward,
        RUNTIME,
        "must be tracked on constants … got a tensor that torch.func differentiates … detach()",
    ),
    Refusal(
        "tracking a fake tensor",
        _fake,
        RUNTIME,
        "must be tracked on ordinary tensors; got a tensor of a FakeTensorMode",
    ),
    Refusal(
        "a tracked tensor that vmap wraps",
        lambda: vmap(fc.phi1)(fc.track(draw(2, 3))),
        TYPE,
        "`x` must be tracked inside a function that torch.func transforms; got one … outside",
    ),
    Refusal(
        "a tracked tensor that grad wraps",
        lambda: grad(lambda x: fc.phi1(x).sum())(fc.track(draw(3))),
        TYPE,
        "`x` must be tracked inside a function that torch.func transforms; got one … outside",
    ),
    Refusal(
        "a tracked tensor that is about to be compiled",
        lambda: fc.track(draw(3))._is_view(),
        RUNTIME,
        "Tensors must not be tracked where they enter torch.compile … got a tracked one",
    ),
    Refusal(
        "groups on another device",
        lambda: fc.prepare(one_head(), torch.empty(1, 2, device="meta").long()),
        VALUE,
        "must be on one device; `groups` is on 'meta', `readout` is on 'cpu'",
    ),
    Refusal(
        "starts on another device",
        lambda: fc.prepare_spans(
            fc.read_bank(draw(KEYS), draw(KEYS, WIDTH)), torch.empty(1, device="meta").long(), 2
        ),
        VALUE,
        "must be on one device; `starts` is on 'meta', `bank` is on 'cpu'",
    ),
    Refusal(
        "removed keys on another device",
        lambda: fc.deletion_response(one_head(), torch.empty(1, KEYS, device="meta").bool()),
        VALUE,
        "must be on one device; `removed` is on 'meta', `readout` is on 'cpu'",
    ),
    Refusal(
        "a mask on another device",
        lambda: fc.freeze(
            draw(KEYS), draw(KEYS, WIDTH), mask=torch.empty(KEYS, device="meta").bool()
        ),
        VALUE,
        "must be on one device; `mask` is on 'meta', `scores` is on 'cpu'",
    ),
    Refusal(
        "pairs on another device",
        lambda: fc.log_ratios(draw(4), draw(KEYS, 4), torch.empty(1, 2, device="meta").long()),
        VALUE,
        "must be on one device; `pairs` is on 'meta', `features` is on 'cpu'",
    ),
    Refusal(
        "values on another device",
        lambda: fc.freeze(draw(KEYS), draw(KEYS, WIDTH).to("meta")),
        VALUE,
        "must be on one device; `scores` is on 'cpu', `values` is on 'meta'",
    ),
    Refusal(
        "a rotary on another device",
        lambda: fc.rotate(rotary(), draw(6).to("meta"), 1.0),
        VALUE,
        "must be on one device; `rotary` is on 'cpu', `vectors` is on 'meta'",
    ),
]
