"""Certificates and projected writes add up heads, not the batch."""

import itertools

import torch

import finite_calculus as fc
from tests.batching.agreement import assert_agree, batch_of
from tests.batching.cases import BATCH, HEADS, MODEL, OTHER_CASES, READOUT_CASES, WIDTH
from tests.helpers.tensors import draw


def test_certified_signs_and_orders_lift_as_a_loop_does():
    case = READOUT_CASES["certify"]
    inputs = batch_of(case, lead=(*BATCH, 4))
    inputs[2], inputs[3] = inputs[2] / 64, inputs[3] / 64  # small enough edits to be certified
    certificate = case.call(*inputs)
    signs, order = fc.certified_signs(certificate), fc.certified_order(certificate)
    assert int(signs.abs().sum()) > 0
    assert int(order.greater.sum()) > 0
    for index in itertools.product(*map(range, BATCH)):
        single = fc.Certificate(**{k: v[index] for k, v in vars(certificate).items()})
        assert torch.equal(fc.certified_signs(single), signs[index])
        assert torch.equal(fc.certified_order(single).greater, order.greater[index])
        pairs = [pair[2:] for pair in order.pairs() if pair[:2] == index]
        assert fc.certified_order(single).pairs() == pairs


def test_a_certificate_over_heads_adds_up_the_heads_and_not_the_batch():
    certificate = READOUT_CASES["certify"].call(*batch_of(READOUT_CASES["certify"]))
    whole = certificate.over_heads()
    for name, part in vars(certificate).items():
        summed, total = part.sum(-1), vars(whole)[name]
        # Three heads: a few units, upwards where it is a bound.
        slack = 16 * torch.finfo(part.dtype).eps * part.abs().sum(-1)
        assert total.shape == BATCH[:1], name
        assert bool(((total - summed).abs() <= slack).all()), name


def test_projected_writes_are_summed_over_heads_as_a_loop_does():
    writes, projection = draw(*BATCH, HEADS, WIDTH), draw(HEADS, WIDTH, MODEL, seed=1)
    gradient = draw(MODEL, seed=2)
    whole = fc.project(fc.track(writes), fc.track(projection))
    each = [
        torch.matmul(fc.track(writes[..., head, :]), fc.track(projection[head]))
        for head in range(HEADS)
    ]
    contracted = fc.contract(fc.track(writes), fc.track(projection), fc.track(gradient))
    case = OTHER_CASES["project"]
    assert_agree(case, {"": whole}, {"": each[0] + each[1]})
    assert_agree(case, {"": contracted}, {"": (whole * fc.track(gradient)).sum(-1)})
