"""Certificates hold for the exact local score, and what they certify is counted without comparing all."""

import pytest
import torch

import finite_calculus as fc
from finite_calculus.models import Delete, KeyShift, Odds, ScaleValues
from finite_calculus.search import (
    Family,
    certify_table,
    counts,
    donor_family,
    intervals,
    score,
    span_family,
    tightness,
    token_family,
)
from tests.search.dense import dense_effect, one_layer, sample


@pytest.mark.parametrize("name", ["embedded", "llama"])
def test_the_exact_local_score_is_within_its_bound(name, request) -> None:
    pair = request.getfixturevalue(name)
    capture = one_layer(pair.capture, 1)
    for family in (token_family(), span_family(2), donor_family(pair.donor)):
        table = certify_table(score(capture, family))
        certificate = table.certificate
        lower, above = intervals(certificate)
        assert bool(((lower <= table.effect) & (table.effect <= above)).all())
        # The bound may not be infinite, or it would say nothing.
        assert bool(torch.isfinite(certificate.bound).all())
        for index in sample(3, len(table)):
            edit = table.edit(index)
            exact = dense_effect(capture.layer(edit.layer), edit)
            gap = abs(float(exact) - float(certificate.first_order[index]))
            assert gap <= float(certificate.bound[index]) + float(fc.error_of(exact))


def test_certificates_of_small_readouts_are_no_looser_than_those_of_the_whole(embedded) -> None:
    capture = one_layer(embedded.capture, 2)
    table = certify_table(
        score(capture, Family((Odds.anywhere(4.0), KeyShift.anywhere(2, "slow"))))
    )
    chosen = sample(6, len(table))
    whole = certify_table(score(capture, [table.edit(index) for index in chosen])).certificate
    for place, index in enumerate(chosen):
        small, large = table.certificate.bound[index], whole.bound[place]
        # Both certify the first-order score, each with its own rounding inside its bound.
        first, other = table.certificate.first_order[index], whole.first_order[place]
        assert abs(float(first) - float(other)) <= min(float(small), float(large))
        assert float(small) <= float(large)


def test_a_deletion_is_certified_by_its_own_remainder(embedded) -> None:
    table = certify_table(score(one_layer(embedded.capture, 2), Family((Delete.anywhere(),))))
    gap = (table.effect - table.certificate.first_order).abs()
    assert bool((gap <= table.certificate.bound).all())
    assert bool(torch.isinf(table.certificate.divergence).all())
    assert bool((fc.certified_signs(table.certificate) != 0).any())


def test_listed_edits_are_certified_and_mixed_deletions_are_not(embedded) -> None:
    edits = [(Odds(1, (4,), 2.0), ScaleValues(1, (9,))), (Delete(1, (4,)), Odds(1, (9,), 2.0))]
    table = certify_table(score(embedded.capture, edits))
    first, second = table.rows()
    assert abs(first.effect - first.first_order) <= first.bound < torch.inf
    assert second.bound == torch.inf


def test_counts_are_those_of_the_full_comparison(embedded) -> None:
    capture = one_layer(embedded.capture, 2)
    table = certify_table(score(capture, Family((Odds.anywhere(2.0), Delete.anywhere()))))
    tally = counts(table.certificate)
    order = fc.certified_order(table.certificate)
    assert tally.pairs == int(order.greater.sum()) > 0
    assert tally.signs == int((fc.certified_signs(table.certificate) != 0).sum()) > 0
    assert tally.candidates == len(table)
    assert tally.all_pairs == len(table) * (len(table) - 1) // 2
    lower, above = intervals(table.certificate)
    for a, b in order.pairs()[:50]:
        assert lower[a] > above[b]
        assert float(table.effect[a]) > float(table.effect[b])


def test_tightness_is_bound_over_the_first_order_error_of_edits_that_move_scores(embedded) -> None:
    capture = one_layer(embedded.capture, 2)
    table = certify_table(
        score(capture, Family((Odds.anywhere(2.0), Delete.anywhere(), ScaleValues.anywhere(0.0))))
    )
    ratios = sorted(
        row.bound / abs(row.effect - row.first_order)
        for row in table.rows()
        if row.kind.startswith("odds") and row.effect != row.first_order
    )
    quantiles = tightness(table, (0.0, 0.5, 1.0))
    assert 1 <= ratios[0] < ratios[-1]
    assert quantiles[0.0] == ratios[0]
    assert quantiles[1.0] == ratios[-1]
    assert ratios[0] < quantiles[0.5] < ratios[-1]
    assert tightness(certify_table(score(capture, Family((Delete.anywhere(),))))) == {}
    with pytest.raises(ValueError, match="`table` must be certified"):
        tightness(score(capture, Family((Delete.anywhere(),))))


def test_a_certificate_follows_the_error_of_what_it_is_given() -> None:
    scores, values = torch.tensor([1.0, 0.5, -2.0]).double(), torch.eye(3).double()
    delta, edit = torch.tensor([0.1, 0.0, 0.3]).double(), torch.zeros(3, 3).double()
    slope = torch.ones(3).double()
    slope[0] = -2.0
    exact = fc.certify(fc.freeze(scores, values), delta, edit, slope)
    loose = fc.freeze(fc.track(scores, torch.full((3,), 1e-3).double()), fc.track(values))
    wider = fc.certify(loose, delta, edit, slope)
    assert float(wider.bound) > float(exact.bound) + 1e-5
