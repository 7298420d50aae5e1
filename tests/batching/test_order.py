"""Permuting the keys permutes the results and the choices; layouts differ by an order of coordinates."""

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from tests.batching.agreement import assert_agree, batch_of, evaluate
from tests.batching.cases import (
    CASES,
    EDITED,
    GROUPS,
    HEADS,
    KEYS,
    MODEL,
    OTHER_CASES,
    PER_KEY,
    READOUT_CASES,
    REMOVED,
    WIDTH,
    unchecked,
)
from tests.helpers.tensors import draw

ORDER = torch.tensor([3, 0, 4, 1, 2])


@unchecked
@pytest.mark.parametrize("name", EDITED)
def test_permuting_the_keys_permutes_the_results(name: str):
    case = READOUT_CASES[name]
    scores, values, score_delta, value_delta = batch_of(case)
    permuted = [scores[..., ORDER], values[..., ORDER, :]]
    permuted += [score_delta[..., ORDER], value_delta[..., ORDER, :]]
    expected = evaluate(case, [scores, values, score_delta, value_delta])
    if name in PER_KEY:
        expected = {k: x.index_select(PER_KEY[name], ORDER) for k, x in expected.items()}
    assert_agree(case, evaluate(case, permuted), expected)


def test_permuting_the_keys_and_the_groups_together_changes_no_sparse_result():
    scores, values, score_delta, value_delta = batch_of(READOUT_CASES["finite_response"])
    place = torch.argsort(ORDER)  # where each key went
    results = []
    for s, v, groups, removed in (
        (scores, values, GROUPS, REMOVED),
        (scores[..., ORDER], values[..., ORDER, :], place[GROUPS], REMOVED[:, ORDER]),
    ):
        readout = fc.freeze(fc.track(s), fc.track(v))
        prepared = fc.prepare(readout, groups)
        # Increments belong to the members of a group, so they do not move with the keys.
        d, e = fc.track(score_delta[..., GROUPS]), fc.track(value_delta[..., GROUPS, :])
        results.append(
            {
                "response": prepared.response(d, e),
                "divergence": prepared.divergence(d),
                "deletion": prepared.deletion(),
                "removal": fc.deletion_response(readout, removed),
            }
        )
    assert_agree(READOUT_CASES["prepared response"], results[0], results[1])


def test_permuting_the_keys_permutes_effective_features_and_keeps_the_matrix():
    query, features, values = (fc.track(x) for x in batch_of(OTHER_CASES["effective_weights"]))
    one = fc.effective_weights(query, features, values)
    other = fc.effective_weights(
        query, features.index_select(-2, ORDER), values.index_select(-2, ORDER)
    )
    case = OTHER_CASES["effective_weights"]
    assert_agree(case, {"": other.matrix}, {"": one.matrix})
    assert_agree(case, {"": other.coefficients}, {"": one.coefficients.index_select(-1, ORDER)})


def cache(order: Tensor | None = None) -> fc.CachePair:
    keys = torch.arange(KEYS) if order is None else order
    scores, values = draw(HEADS, KEYS), draw(HEADS, KEYS, WIDTH, seed=1)
    originals = (
        scores + draw(HEADS, KEYS, seed=2) / 4,
        values + draw(HEADS, KEYS, WIDTH, seed=3) / 4,
    )
    return fc.CachePair(
        scores[:, keys], values[:, keys], originals[0][:, keys], originals[1][:, keys]
    )


@pytest.mark.parametrize(
    "method", ["exact", "first-order", "second-order", "attention", "value-norm", "fisher"]
)
def test_restoration_follows_its_entries_through_a_permutation(method: str):
    projection = draw(HEADS, WIDTH, MODEL, seed=4)
    plain = fc.restore_greedily(cache(), projection, KEYS, method=method)
    moved = fc.restore_greedily(cache(ORDER), projection, KEYS, method=method)
    assert torch.equal(ORDER[moved.restored], plain.restored)


def test_greedy_restoration_lifts_over_caches_as_a_loop_does():
    pairs, projection = [cache(), cache(ORDER)], draw(HEADS, WIDTH, MODEL, seed=4)
    parts = [torch.stack(part) for part in zip(*(vars(p).values() for p in pairs), strict=True)]
    both = fc.restore_greedily(fc.CachePair(*parts), projection, KEYS - 1)
    for row, pair in enumerate(pairs):
        single = fc.restore_greedily(pair, projection, KEYS - 1)
        assert torch.equal(both.restored[row], single.restored)
        assert both.errors[row].shape == (KEYS,)
        assert torch.equal(both.errors[row].argsort(), single.errors.argsort())


def test_restoring_nothing_reports_the_error_alone():
    restoration = fc.restore_greedily(cache(), draw(HEADS, WIDTH, MODEL, seed=4), 0)
    assert restoration.restored.shape == restoration.scores.shape == (0,)
    assert restoration.errors.shape == (1,)


def test_evictions_follow_their_groups_through_a_permutation():
    scores, values = draw(HEADS, KEYS), draw(HEADS, KEYS, WIDTH, seed=1)
    groups, projection = torch.eye(KEYS, dtype=torch.bool), draw(HEADS, WIDTH, MODEL, seed=4)
    plain = fc.select_evictions(fc.freeze(scores, values), groups, projection, 2.0)
    permuted = fc.freeze(scores[:, ORDER], values[:, ORDER])
    moved = fc.select_evictions(permuted, groups[:, ORDER], projection, 2.0)
    assert plain.evicted
    assert moved.evicted == plain.evicted


def test_scores_of_restoration_do_not_require_grad_and_keep_their_dtype():
    for dtype in (torch.float32, torch.float64):
        pair = fc.CachePair(*(part.to(dtype) for part in vars(cache()).values()))
        projection = draw(HEADS, WIDTH, MODEL, seed=4).to(dtype)
        for method in ("exact", "first-order", "second-order", "attention", "value-norm", "fisher"):
            scores = fc.restoration_scores(pair, projection, method)
            assert scores.dtype == dtype
            assert not scores.requires_grad
        generator = torch.Generator().manual_seed(0)
        random_scores = fc.restoration_scores(pair, projection, "random", generator=generator)
        assert random_scores.dtype == dtype


@pytest.mark.parametrize("name", ["rotate", "displacement", "tangent", "phi1_rotary"])
def test_the_two_layouts_differ_by_an_order_of_coordinates(name: str):
    halves = torch.tensor([0, 2, 4, 1, 3, 5, 6, 7])  # first coordinates, second ones, the rest
    vectors = batch_of(CASES[f"{name}, half"])[0]
    one = evaluate(CASES[f"{name}, interleaved"], [vectors])[""]
    other = evaluate(CASES[f"{name}, half"], [vectors[..., halves]])[""]
    assert_agree(CASES[f"{name}, half"], {"": one.index_select(-1, halves)}, {"": other})
