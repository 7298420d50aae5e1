"""Certificates held to what they say: bounds, signs and orders against Arb, from the definition."""

from collections.abc import Iterator

import flint
import numpy as np
import torch

import finite_calculus as fc
from proofs.numeric import cases
from proofs.numeric.cases import Batch, Rng
from proofs.numeric.comparison import Pairs, as_lists, tensors
from proofs.references import bank as of_bank
from proofs.references.numbers import PROVEN_BITS, arb_precision, distance, prove

_HEADS = 3
_STRENGTHS = (0.0, 1e-6, 1e-3, 0.1, 1.0)


def certificate_is_true(batch: Batch) -> Iterator[Pairs]:
    """|S − Ŝ| ≤ B for the first-order score."""
    return _score_errors(batch, _certified(batch))


def jacobian_certificate_is_true(batch: Batch) -> Iterator[Pairs]:
    """|S − Ŝ| ≤ B for the positional Jacobian's score, the rotary remainder included."""
    remainder = tensors(batch.joined())["linear_delta"]
    return _score_errors(batch, _certified(batch, score_remainder=remainder))


def upper_values_are_upper(batch: Batch) -> Iterator[Pairs]:
    """KL and TV as certificates report them are not below the exact ones."""
    certificate = _certified(batch)
    kl, tv = certificate.divergence.tolist(), certificate.total_variation.tolist()
    for index in range(len(batch)):
        case = as_lists(batch.case(index))
        (exact_kl,), _ = prove(of_bank.divergence, case)
        (exact_tv,), _ = prove(of_bank.total_variation, case)
        yield [(distance(0.0, exact_kl), kl[index]), (distance(0.0, exact_tv), tv[index])]


def sweeps(rng: Rng, dtype: type, count: int) -> Batch:
    """A bank, its edits at five strengths on the second axis."""
    batch = cases.full_bank(rng, dtype, count)
    strengths = np.array(_STRENGTHS, dtype)
    edits = {
        name: np.einsum("s,n...->ns...", strengths, batch.each[name])
        for name in ("score_delta", "value_delta")
    }
    return Batch({**batch.each, **edits})


def certified_signs_are_true(batch: Batch) -> Iterator[Pairs]:
    """Every certified sign of a strength sweep agrees with Arb."""
    signs = fc.certified_signs(_swept(batch)).tolist()
    for index, exact in enumerate(_exact_scores(batch)):
        wrong = sum(s != 0 and s != np.sign(x) for s, x in zip(signs[index], exact, strict=True))
        yield [(float(wrong), 0.5)]


def certified_pairs_are_true(batch: Batch) -> Iterator[Pairs]:
    """Every certified pair of a strength sweep agrees with Arb."""
    greater = fc.certified_order(_swept(batch)).greater.tolist()
    for index, exact in enumerate(_exact_scores(batch)):
        order = range(len(exact))
        claims = [(a, b) for a in order for b in order if greater[index][a][b]]
        yield [(float(sum(not exact[a] > exact[b] for a, b in claims)), 0.5)]


def heads(rng: Rng, dtype: type, count: int) -> Batch:
    """Banks of three heads, on the second axis."""
    batch = cases.bank(rng, dtype, _HEADS * count)
    each = {name: x.reshape(count, _HEADS, *x.shape[1:]) for name, x in batch.each.items()}
    return Batch(each, batch.shared)


def heads_add_up(batch: Batch) -> Iterator[Pairs]:
    """The certificate summed over three heads bounds the summed exact score."""
    summed = _certified(batch).over_heads()
    first, bound = summed.first_order.tolist(), summed.bound.tolist()
    for index in range(len(batch)):
        own, exact = Batch(batch.case(index)), flint.arb(0)
        with arb_precision(16 * PROVEN_BITS):
            for head in range(_HEADS):
                (score,), _ = prove(of_bank.exact_score, as_lists(own.case(head)), [bound[index]])
                exact += score
        yield [(distance(first[index], exact), bound[index])]


def _certified(batch: Batch, **extra: torch.Tensor) -> fc.Certificate:
    inputs = tensors(batch.joined())
    readout = fc.freeze(inputs["scores"], inputs["values"], mask=inputs["mask"])
    edits = (inputs["score_delta"], inputs["value_delta"], inputs["gradient"])
    return fc.certify(readout, *edits, **extra)


def _score_errors(batch: Batch, certificate: fc.Certificate) -> Iterator[Pairs]:
    first, bound = certificate.first_order.tolist(), certificate.bound.tolist()
    for index in range(len(batch)):
        (exact,), _ = prove(of_bank.exact_score, as_lists(batch.case(index)), [bound[index]])
        yield [(distance(first[index], exact), bound[index])]


def _swept(batch: Batch) -> fc.Certificate:
    """Certificates of a sweep, the strengths on the last axis."""
    inputs = tensors(batch.joined())
    readout = fc.freeze(inputs["scores"], inputs["values"])
    score_delta, value_delta = (inputs[x].movedim(1, 0) for x in ("score_delta", "value_delta"))
    certificate = fc.certify(readout, score_delta, value_delta, inputs["gradient"])
    return fc.Certificate(
        *[getattr(certificate, name).mT for name in fc.Certificate.__dataclass_fields__]
    )


def _exact_scores(batch: Batch) -> Iterator[list[float]]:
    """The exact local scores of every case, one for each strength."""
    for index in range(len(batch)):
        case = as_lists(batch.case(index))
        edits = zip(case["score_delta"], case["value_delta"], strict=True)
        proven = [
            prove(of_bank.exact_score, {**case, "score_delta": d, "value_delta": e})
            for d, e in edits
        ]
        yield [float(balls[0].mid()) for balls, _ in proven]
