"""Query control: which requests are refused, which are met, and by which edit."""

import math

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from finite_calculus import control as query_control
from tests.helpers.tensors import draw

KEYS, MODEL = 5, 4
EPS = torch.finfo(torch.float64).eps


def control(pairs: list, requested: list, features: Tensor | None = None) -> fc.QueryControl:
    bank = draw(KEYS, MODEL + 1) if features is None else features
    ratios = torch.tensor(requested, dtype=torch.float64)
    return fc.control_query(draw(bank.shape[-1], seed=1), bank, torch.tensor(pairs), ratios)


def on_a_line() -> Tensor:
    """Features of three keys at 1, 0 and −1: log p₀/p₁ and log p₁/p₂ are always equal."""
    features = torch.zeros(3, MODEL + 1, dtype=torch.float64)
    features[:, 0] = torch.tensor([1.0, 0.0, -1.0], dtype=torch.float64)
    return features


def test_requests_that_are_linked_only_by_a_later_one_are_met():
    answer = control([[0, 1], [2, 3], [1, 2]], [1.0, 2.0, 3.0])
    assert answer.feasible
    assert control([[3, 4], [0, 1], [4, 0], [1, 2]], [1.0, -1.0, 0.5, 2.0]).feasible


def test_requests_may_differ_from_what_others_imply_by_their_rounding_alone():
    # Four units for each of two requests, of a total of two.
    assert control([[0, 1], [0, 1]], [1.0, 1.0 + 15 * EPS]).rank == 1
    for off in (17, 40):
        with pytest.raises(ValueError, match="must not contradict itself; request 1"):
            control([[0, 1], [0, 1]], [1.0, 1.0 + off * EPS])
    limit = 12 * EPS * (2 + 24 * EPS)
    cycle = [[0, 1], [1, 2], [0, 2]]
    assert control(cycle, [1.0, -1.0, limit]).rank == 2
    with pytest.raises(ValueError, match="must not contradict itself; request 2"):
        control(cycle, [1.0, -1.0, 1.01 * limit])
    large = 2.0**20
    assert control([[0, 1], [0, 1]], [large, large * (1 + 15 * EPS)]).rank == 1


@pytest.mark.parametrize("sign", [-1.0, 1.0])
def test_one_request_that_is_out_of_reach_makes_the_whole_infeasible(sign: float):
    features = on_a_line()
    features[2] = features[0]  # keys 0 and 2 always weigh the same
    assert not control([[0, 2]], [sign], features).feasible
    both = control([[0, 1], [0, 2]], [1.0, sign], features)
    assert not both.feasible
    assert float(both.residual.abs().min()) <= both.accuracy < float(both.residual.abs().max())


@pytest.mark.parametrize(
    ("pairs", "requested"),
    [
        ([[0, 1], [1, 2]], [1.0, 3.0]),
        ([[0, 1], [1, 2], [0, 2]], [1.0, 1.0, 2.0]),
        ([[0, 1]], [0.5]),
    ],
)
def test_the_edit_is_the_smallest_of_least_squares(pairs: list, requested: list):
    features = on_a_line()
    answer = control(pairs, requested, features)
    rows = torch.stack([features[j] - features[k] for j, k in pairs])
    missing = answer.requested - rows @ draw(MODEL + 1, seed=1)
    smallest = torch.linalg.pinv(rows[:, :-1]) @ missing
    # A handful of products of numbers of order one.
    assert float((answer.edit - smallest).abs().max()) <= 64 * EPS * (
        1 + float(missing.abs().max())
    )
    assert answer.rank == 1


def test_the_accuracy_is_twice_the_error_bound_of_the_recomputed_ratios():
    features, query = draw(KEYS, MODEL + 1), draw(MODEL + 1, seed=1)
    pairs = torch.tensor([[0, 1], [4, 2]])
    answer = fc.control_query(query, features, pairs, draw(2, seed=2))
    query_after = torch.cat([fc.track(query[:-1]) + fc.track(answer.edit), fc.track(query[-1:])])
    scores = torch.matmul(fc.track(features), query_after.unsqueeze(-1)).squeeze(-1)
    logs = fc.freeze(scores, scores.unsqueeze(-1)).log_probs
    bounds = fc.error_of(logs[pairs[:, 0]] - logs[pairs[:, 1]])
    assert float(bounds[0]) != float(bounds[1])
    assert answer.accuracy == 2 * float(bounds.max())


def test_log_ratios_of_a_batch_are_those_of_its_parts():
    query, features = draw(2, 3, MODEL), draw(2, 3, KEYS, MODEL, seed=1)
    pairs = torch.tensor([[0, 1], [4, 2], [3, 3], [1, 0]])
    whole = fc.log_ratios(query, features, pairs)
    assert whole.shape == (2, 3, 4)
    for i in range(2):
        for j in range(3):
            probs = torch.softmax(features[i, j] @ query[i, j], -1)
            exact = torch.log(probs[pairs[:, 0]] / probs[pairs[:, 1]])
            assert float((whole[i, j] - exact).abs().max()) <= 64 * EPS * (
                1 + float(exact.abs().max())
            )


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda: fc.relative_features(torch.ones(3, 2).int(), 0),
            TypeError,
            "`features` must be float",
        ),
        (
            lambda: fc.relative_features(draw(3), 0),
            ValueError,
            r"`features` must have trailing shape",
        ),
        (lambda: fc.relative_features(draw(3, 2) / 0, 0), ValueError, "`features` must be finite"),
        (
            lambda: fc.log_ratios(draw(2), draw(2), torch.tensor([[0, 0]])),
            ValueError,
            "`features` must",
        ),
        (
            lambda: fc.control_query(draw(2, 3), draw(2, KEYS, 3), torch.tensor([[0, 1]]), draw(1)),
            ValueError,
            r"`features` must have shape \(keys, inputs\), one head",
        ),
        (
            lambda: fc.preserving_directions(draw(KEYS, 3), mask=torch.ones(1, KEYS).bool()),
            ValueError,
            r"`mask` must have shape \(5\), that is \(keys,\); got \(1, 5\)",
        ),
    ],
)
def test_features_and_masks_of_other_shapes_are_refused(call, error, message: str):
    with pytest.raises(error, match=message):
        call()


def test_a_request_counts_as_met_up_to_the_accuracy(monkeypatch: pytest.MonkeyPatch):
    arguments = [[0, 1], [1, 2]], [1.0, 2.0], on_a_line()
    off = float(control(*arguments).residual.abs().max())
    assert off > 0
    for accuracy, feasible in ((off, True), (math.nextafter(off, 0), False)):
        monkeypatch.setattr(query_control, "_accuracy", lambda *_, fixed=accuracy: fixed)
        assert control(*arguments).feasible is feasible


def test_tiny_requests_do_not_contradict_themselves():
    assert control([[0, 1], [1, 2]], [1e-20, -1e-20]).requested.tolist() == [1e-20, -1e-20]


@pytest.mark.usefixtures("unchecked_shapes")
def test_features_must_be_a_tensor():
    with pytest.raises(TypeError, match=r"`features` must be a torch\.Tensor; got list"):
        fc.preserving_directions([[1.0, 2.0], [3.0, 4.0]])  # type: ignore[arg-type]
