"""Several queries that see an edit: each exact, their sum a prediction, executed on the model."""

import pytest
import torch

from finite_calculus.models import (
    Delete,
    Divergence,
    KeyShift,
    LocalCheck,
    LogProbability,
    Margin,
    Odds,
    OfLogits,
    QueryEdit,
    Replace,
    ScaleValues,
    attach,
    compare_all,
    execute,
)
from finite_calculus.models.objectives import as_objective
from finite_calculus.models.tiny import tiny_model

ANSWER = (5, 7, 9, 11)


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2")


@pytest.fixture
def instrument(model):
    with attach(model) as instrument:
        yield instrument


def checks(edits, outcomes):
    return [
        LocalCheck.of(local)
        for edit, outcome in zip(edits, outcomes, strict=True)
        for local in compare_all([edit] * len(outcome.queries), outcome.queries)
    ]


def battery(layer, donor):
    return [
        Delete(layer, (16,)),
        ScaleValues(layer, (15, 16), 0.5, heads=(0, 4)),
        Odds(layer, (17,), 4.0, heads=(1,)),
        (Delete(layer, (14,)), Odds(layer, (15,), 0.5)),
        Replace(layer, (15, 16), donor.queries(layer)[-1]),
        *([] if donor.queries(layer)[0].rotary is None else [KeyShift(layer, (15, 16), 3.0)]),
    ]


@pytest.mark.parametrize("family", ["qwen2", "gemma2", "gpt_oss", "mistral"])
def test_every_query_that_reads_an_edit_writes_what_is_predicted(tiny, ids, family) -> None:
    with attach(tiny(family)) as instrument:
        passage = instrument.passage(ids, LogProbability(ANSWER))
        donor = instrument.passage(ids.roll(3), LogProbability(ANSWER))
        edits = [edit for layer in (1, 2) for edit in battery(layer, donor)]
        outcomes = instrument.execute_passage(passage, edits, batch=6)
    local = checks(edits, outcomes)
    assert len(local) == len(edits) * len(ANSWER)
    assert [check for check in local if not check.within_bound] == []
    assert all(outcome.drift == 0 or family == "gpt_oss" for outcome in outcomes)
    assert all(outcome.effect != 0 for outcome in outcomes)


def test_an_edit_that_one_query_misses_breaks_the_bound(instrument, ids, monkeypatch) -> None:
    genuine = execute.apply_bank

    def last_alone(call, row, layer, bank):
        before = call.mask[row, :, :-1].clone()
        genuine(call, row, layer, bank)
        call.mask[row, :, :-1] = before

    passage = instrument.passage(ids, LogProbability(ANSWER))
    edits = [Delete(1, (16,))]
    monkeypatch.setattr(execute, "apply_bank", last_alone)
    local = checks(edits, instrument.execute_passage(passage, edits))
    assert [check.within_bound for check in local] == [False, False, False, True]


def test_an_answer_of_several_tokens_is_that_of_installed_edits(model, instrument, ids) -> None:
    """Another path: the whole text at once under the installed edit, its log-probabilities by hand."""
    edit = (ScaleValues(1, (3, 4, 19), 0.0), Odds(1, (7,), 8.0))
    passage = instrument.passage(ids, LogProbability(ANSWER))
    (outcome,) = instrument.execute_passage(passage, [edit])
    text = torch.cat([ids, torch.tensor(ANSWER[:-1])]).unsqueeze(0)
    capture = instrument.capture(ids, answer=3, versus=5)

    def by_hand() -> float:
        with torch.no_grad():
            logits = model(input_ids=text).logits[0, -len(ANSWER) :].double()
        likely = torch.log(torch.softmax(logits, -1))
        return float(sum(likely[i, token] for i, token in enumerate(ANSWER)))

    plain = by_hand()
    with instrument.installed(capture, edit):
        edited = by_hand()
    # Prefill and cached tokens round differently, in the last digits of logits of size 10.
    rounding = 1e3 * torch.finfo(torch.float32).eps * 10
    assert abs(passage.baseline - plain) < rounding
    assert abs(outcome.effect - (edited - plain)) < rounding
    assert abs(outcome.effect) > 100 * rounding


@pytest.mark.parametrize(
    ("objective", "readers"),
    [
        (LogProbability(ANSWER), None),
        (Margin(3, 5), range(8, 14)),
        (Margin(3, 5), 1),
        (lambda logits: logits[..., :4].logsumexp((-1, -2)), 6),
    ],
    ids=["answer", "span", "last", "function"],
)
def test_the_first_order_is_the_slope_of_what_is_executed(
    instrument, ids, objective, readers
) -> None:
    passage = instrument.passage(ids, objective, readers=readers)
    small = [Odds(layer, (5, 7), 1 + 1e-2) for layer in range(3)]
    for edit, outcome in zip(small, instrument.execute_passage(passage, small), strict=True):
        predicted = passage.predict(edit).effect
        bend = instrument.second_order(passage, edit)
        rounding = 1e3 * torch.finfo(torch.float32).eps
        assert abs(predicted + bend - outcome.effect) < 0.05 * abs(predicted) + rounding
    assert passage.readers == (readers if isinstance(readers, range) else passage.readers)


def test_a_span_in_the_middle_acts_through_what_its_queries_wrote(instrument, ids) -> None:
    """Nobody reads the last layer's writes of earlier queries, so they change nothing there."""
    passage = instrument.passage(ids, Margin(3, 5), readers=range(8, 14))
    first, last = instrument.execute_passage(passage, [Delete(0, (4,)), Delete(2, (4,))])
    assert first.effect != 0
    assert (last.effect, passage.predict(Delete(2, (4,))).effect) == (0.0, 0.0)
    assert float(passage.predict(Delete(2, (4,))).writes.norm(dim=-1).min()) > 0


def test_one_reader_is_the_capture_of_one_query(instrument, ids) -> None:
    capture = instrument.capture(ids, answer=3, versus=5)
    passage = instrument.passage(ids, Margin(3, 5))
    for layer in range(3):
        (query,) = passage.queries(layer)
        edit = Odds(layer, (5,), 3.0)
        assert torch.equal(query.keys, capture.layer(layer).keys)
        assert torch.equal(query.gradient_write, capture.layer(layer).gradient_write)
        assert passage.predict(edit).effect == capture.predict(edit).effect


def test_a_divergence_is_predicted_by_its_second_order(instrument, ids) -> None:
    passage = instrument.passage(ids, Divergence(2), readers=4)
    large, small = ([Odds(layer, (5, 7), 2.0**s) for layer in range(3)] for s in (1.0, 0.5))
    assert passage.baseline == 0
    outcomes = instrument.execute_passage(passage, [*large, *small])

    def rest(edit, outcome):
        """What the second order leaves open; the first one is the rounding of p − p."""
        assert outcome.effect > 0
        first, second = passage.predict(edit).effect, instrument.second_order(passage, edit)
        assert abs(first) < torch.finfo(torch.float32).eps * sum(passage.ids.shape)
        return abs(outcome.effect - second)

    # It is of the third order: half the increment leaves about an eighth, well below a fourth.
    for layer in range(3):
        left = rest(small[layer], outcomes[3 + layer])
        assert left < rest(large[layer], outcomes[layer]) / 4


def test_an_answer_may_be_text(tiny, tokenizer) -> None:
    with attach(tiny("qwen2"), tokenizer=tokenizer) as instrument:
        objective = instrument.log_probability("red mat .")
        assert objective.answer == (9, 7, 11)
        passage = instrument.passage("the cat sat on", objective)
        assert passage.ids.tolist() == [1, 2, 4, 5, 9, 7]
        assert passage.readers == range(3, 6)
        with pytest.raises(ValueError, match="`answer` must hold at least one token"):
            instrument.log_probability("")
        with pytest.raises(ValueError, match="`answer` must be a token id"):
            instrument.log_probability([5, 96])


@pytest.mark.usefixtures("unchecked_shapes")
def test_what_a_passage_cannot_be_is_refused(instrument, ids) -> None:
    for readers in (0, 20, range(4), range(4, 21), range(4, 8, 2), range(5, 5), "all", True):
        with pytest.raises(ValueError, match="`readers` must be consecutive positions in"):
            instrument.passage(ids, Margin(3, 5), readers=readers)
    with pytest.raises(TypeError, match="`objective` must be a Margin"):
        instrument.passage(ids, 3)
    with pytest.raises(ValueError, match="`function` must return one number for each row"):
        instrument.passage(ids, OfLogits(lambda logits: logits.sum(-1), 2))
    with pytest.raises(ValueError, match="context of 128 tokens"):
        instrument.passage(list(range(3, 90)), LogProbability(tuple(range(3, 90))))
    passage = instrument.passage(ids, Margin(3, 5), readers=3, layers=[1])
    with pytest.raises(ValueError, match="one of the passage's layers"):
        passage.predict(Delete(2, (3,)))
    with pytest.raises(ValueError, match="of keys, values and scores"):
        instrument.execute_passage(passage, [QueryEdit(1, (), torch.zeros(6, 8))])
    with pytest.raises(ValueError, match="leave at least one attended key"):
        instrument.execute_passage(passage, [Delete(1, tuple(range(18)))])
    other = instrument.passage(ids.roll(1), Margin(3, 5), readers=3, layers=[1])
    stolen = type(passage)(**{**vars(passage), "layers": other.layers})
    with pytest.raises(ValueError, match="must come from the attached model"):
        instrument.execute_passage(stolen, [Delete(1, (3,))])


def assert_rounded(value, by_hand, terms=None) -> None:
    """Equal up to sixteen roundings of the terms, some three for each of four numbers and their sum."""
    scale = (by_hand if terms is None else terms).abs().sum()
    assert float((value - by_hand).abs().max()) <= 16 * torch.finfo(torch.float64).eps * scale


def test_objectives_say_what_they_compute() -> None:
    logits = torch.tensor([[[0.0, 1.0], [2.0, 0.0]]], dtype=torch.float64)
    other = logits.flip(-1)
    by_hand = logits.softmax(-1)[0, 0, 1].log() + logits.softmax(-1)[0, 1, 0].log()
    assert_rounded(LogProbability((1, 0)).of(logits, logits), by_hand)
    p, q = other.softmax(-1), logits.softmax(-1)
    terms = p * (p / q).log()
    assert_rounded(Divergence(2).of(logits, other), terms.sum((-1, -2)), terms)
    assert as_objective(Margin(1, 0)).of(logits, logits) == -2.0
