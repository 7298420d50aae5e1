"""Restoration: what one step replaces, which entry a step chooses, and what is reported of it."""

import re

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from tests.helpers.tensors import draw
from tests.helpers.watched import Watched

HEADS, KEYS, WIDTH, MODEL = 2, 5, 3, 4
METHODS = ["exact", "first-order", "second-order", "attention", "value-norm", "fisher"]
EPS = torch.finfo(torch.float64).eps


def cache(*batch: int) -> fc.CachePair:
    scores, values = draw(*batch, HEADS, KEYS), draw(*batch, HEADS, KEYS, WIDTH, seed=1)
    return fc.CachePair(
        scores,
        values,
        scores + draw(*batch, HEADS, KEYS, seed=2) / 4,
        values + draw(*batch, HEADS, KEYS, WIDTH, seed=3) / 4,
    )


def projection() -> Tensor:
    return draw(HEADS, WIDTH, MODEL, seed=4)


def write(scores: Tensor, values: Tensor) -> Tensor:
    """The projected write from its definition."""
    outputs = (torch.softmax(scores, -1).unsqueeze(-1) * values).sum(-2)
    return torch.einsum("...hw,hwm->...m", outputs, projection())


@pytest.mark.parametrize("key", [0, 3, KEYS - 1])
def test_restoring_replaces_one_key_and_its_value_in_every_head(key: int):
    before = cache()
    after = before.restore(key)
    others = [index for index in range(KEYS) if index != key]
    assert torch.equal(after.scores[:, key], before.original_scores[:, key])
    assert torch.equal(after.values[:, key], before.original_values[:, key])
    assert torch.equal(after.scores[:, others], before.scores[:, others])
    assert torch.equal(after.values[:, others], before.values[:, others])
    assert after.original_scores is before.original_scores
    assert after.original_values is before.original_values
    assert torch.equal(before.score_delta, before.original_scores - before.scores)
    assert torch.equal(before.value_delta, before.original_values - before.values)
    assert int(after.score_delta[:, key].count_nonzero()) == 0


def test_each_cache_of_a_batch_is_restored_at_its_own_key():
    whole, keys = cache(2, 3), torch.tensor([[0, 4, 1], [2, 2, 3]])
    after = whole.restore(keys)
    for i in range(2):
        for j in range(3):
            single = fc.CachePair(*(part[i, j] for part in vars(whole).values()))
            expected = single.restore(int(keys[i, j]))
            assert torch.equal(after.scores[i, j], expected.scores)
            assert torch.equal(after.values[i, j], expected.values)


@pytest.mark.usefixtures("unchecked_shapes")
def test_keys_of_other_caches_are_refused():
    with pytest.raises(
        ValueError, match=r"`key` must have shape \(2, 3\), that is one key for each"
    ):
        cache(2, 3).restore(torch.tensor([0, 1, 2]))


def test_the_write_error_is_what_the_corruption_adds():
    pair = cache()
    exact = write(pair.scores, pair.values) - write(pair.original_scores, pair.original_values)
    error = pair.write_error(projection())
    # A few dozen roundings of terms no larger than values times projections.
    slack = 256 * EPS * float(pair.values.abs().max() * projection().abs().max())
    assert float((error - exact).abs().max()) <= slack


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("rescore", [False, True])
def test_greedy_steps_take_the_largest_score_and_report_it(method: str, rescore: bool):
    pair = cache()
    restoration = fc.restore_greedily(pair, projection(), KEYS, method=method, rescore=rescore)
    scores = fc.restoration_scores(pair, projection(), method)
    errors = [torch.linalg.vector_norm(pair.write_error(projection()))]
    remaining = list(range(KEYS))
    for step in range(KEYS):
        if rescore:
            scores = fc.restoration_scores(pair, projection(), method)
        best = max(remaining, key=lambda key: float(scores[key]))
        remaining.remove(best)
        assert int(restoration.restored[step]) == best
        assert float(restoration.scores[step]) == float(scores[best])
        pair = pair.restore(best)
        errors.append(torch.linalg.vector_norm(pair.write_error(projection())))
    assert torch.equal(restoration.errors, torch.stack(errors))
    assert restoration.restored.dtype is torch.int64


def test_only_candidates_are_restored_and_ties_go_to_the_earlier():
    allowed = torch.tensor([False, True, False, True, True])
    restoration = fc.restore_greedily(cache(), projection(), 3, candidates=allowed)
    assert sorted(restoration.restored.tolist()) == [1, 3, 4]
    equal, values = torch.zeros(HEADS, KEYS, dtype=torch.float64), draw(HEADS, KEYS, WIDTH)
    same = fc.CachePair(equal, values, equal, values)
    ties = fc.restore_greedily(same, projection(), 3, method="attention")
    assert ties.restored.tolist() == [0, 1, 2]
    nothing = fc.restore_greedily(cache(2), projection(), 0)
    assert nothing.restored.shape == nothing.scores.shape == (2, 0)
    assert nothing.errors.shape == (2, 1)
    for count in (-1, 4):
        with pytest.raises(ValueError, match="number of candidates, 3; got"):
            fc.restore_greedily(cache(), projection(), count, candidates=allowed)


@pytest.mark.parametrize("method", METHODS)
def test_a_batch_of_caches_is_restored_as_a_loop_does(method: str):
    whole = cache(2, 3)
    together = fc.restore_greedily(whole, projection(), 3, method=method)
    scores = fc.restoration_scores(whole, projection(), method)
    for i in range(2):
        for j in range(3):
            single = fc.CachePair(*(part[i, j] for part in vars(whole).values()))
            alone = fc.restore_greedily(single, projection(), 3, method=method)
            assert torch.equal(together.restored[i, j], alone.restored)
            # Sums may be taken in another order: a few units of the largest score.
            own = fc.restoration_scores(single, projection(), method)
            slack = 256 * EPS * (1 + float(own.abs().max()))
            assert float((scores[i, j] - own).abs().max()) <= slack


def test_random_scores_are_drawn_from_the_generator_for_every_entry():
    seeded = torch.Generator().manual_seed(5)
    scores = fc.restoration_scores(cache(2), projection(), "random", generator=seeded)
    again = torch.rand(2, KEYS, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    assert torch.equal(scores, again)
    seeded = torch.Generator().manual_seed(5)
    restoration = fc.restore_greedily(cache(2), projection(), 1, method="random", generator=seeded)
    assert torch.equal(restoration.restored.squeeze(-1), again.argmax(-1))


def test_restorations_carry_no_gradient():
    parts = [part.requires_grad_() for part in vars(cache()).values()]
    restoration = fc.restore_greedily(fc.CachePair(*parts), projection(), 2)
    assert not any(part.requires_grad for part in vars(restoration).values())


@pytest.mark.parametrize("method", [*METHODS, "random"])
def test_a_cache_of_one_head_is_restored(method: str):
    whole = cache()
    single = fc.CachePair(*(part[:1] for part in vars(whole).values()))
    plan = fc.restore_greedily(
        single, projection()[:1], 2, method=method, generator=torch.Generator().manual_seed(1)
    )
    assert plan.restored.shape == (2,)
    assert len(set(plan.restored.tolist())) == 2


def test_random_scores_are_drawn_by_the_generator_and_brought_to_the_device_of_the_cache(
    monkeypatch: pytest.MonkeyPatch,
):
    draw_uniform = torch.rand
    Watched.requests.clear()
    monkeypatch.setattr(
        torch, "rand", lambda *size, **how: draw_uniform(*size, **how).as_subclass(Watched)
    )
    whole, generator = cache(2), torch.Generator().manual_seed(5)
    scores = fc.restoration_scores(whole, projection(), "random", generator=generator)
    again = draw_uniform(2, KEYS, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    assert torch.equal(scores.as_subclass(Tensor), again)
    assert Watched.requests == [(whole.scores.device,)]


@pytest.mark.usefixtures("unchecked_shapes")
def test_increments_of_another_length_are_refused_in_the_words_of_the_caller():
    readout = fc.freeze(draw(KEYS), draw(KEYS, WIDTH, seed=1))
    says = "`score_delta` must have trailing shape (5), that is (..., keys); got (4,)"
    with pytest.raises(ValueError, match=re.escape(says)):
        fc.restoration_response(readout, draw(4), draw(KEYS, WIDTH))
