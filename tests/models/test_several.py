"""Counterfactuals of several layers: predictions add up, cross terms are those of the Hessian, execution."""

import pytest
import torch

from finite_calculus.models import (
    Delete,
    Odds,
    ScaleValues,
    attach,
    predict,
    predict_several,
)
from finite_calculus.models.hessian import hessian_products
from finite_calculus.models.several import by_layer

FLOAT32, FLOAT64 = torch.finfo(torch.float32).eps, torch.finfo(torch.float64).eps
ANSWERS = {"answer": 5, "versus": 9}
BOTH = (Odds(0, (3,), 8.0), ScaleValues(2, (4, 6), 0.5), Delete(0, (7,)))


def test_first_orders_add_and_without_curvature_there_is_no_more(tiny, ids):
    with attach(tiny("llama")) as instrument:
        capture = instrument.capture(ids, **ANSWERS)
    predicted = predict_several(capture, BOTH)
    low = predict(capture.layer(0), (BOTH[0], BOTH[2]))
    high = predict(capture.layer(2), BOTH[1])
    rounding = FLOAT64 * (abs(low.effect) + abs(high.effect))
    assert abs(predicted.effect - (low.effect + high.effect)) <= rounding
    assert [part.layer for part in predicted.layers] == [0, 2]
    assert predicted.second is None
    assert predicted.cross is None


def test_the_cross_term_is_the_hessian_between_the_layers(tiny, ids):
    with attach(tiny("llama")) as instrument:
        capture = instrument.capture(ids, **ANSWERS, curvature=48)
        predicted = predict_several(capture, BOTH)
        low, high = (part.write.float() for part in predicted.layers)
        prompt = instrument.prompt(capture.ids)
        starts = [low[None], high[:0].reshape(0, 48)]
        _, changes = hessian_products(prompt, capture.margin, [0, 2], starts)
    expected = float(changes[1][0] @ high)
    # All directions that the writes span are captured: what is left is float32 rounding.
    size = float(low.norm() * high.norm() * capture.curvature.form.abs().max())
    assert abs(predicted.cross - expected) <= 48 * FLOAT32 * 48 * size
    own = [capture.curvature.second(p.layer, p.write.float()[None]).term for p in predicted.layers]
    total = predicted.effect + sum(float(term) for term in own) + predicted.cross
    terms = (predicted.effect, *map(float, own), predicted.cross)
    assert abs(predicted.second - total) <= len(terms) * FLOAT64 * sum(map(abs, terms))


@pytest.mark.parametrize("family", ["llama", "gpt_neox", "gpt2"])
def test_one_layer_is_executed_as_ever_and_several_as_one_after_the_other(tiny, ids, family):
    model = tiny(family)
    edits = [(BOTH[1],), (BOTH[0], BOTH[1]), (BOTH[0],)]
    with attach(model) as instrument:
        capture = instrument.capture(ids, **ANSWERS)
        outcomes = instrument.execute_several(capture, edits)
        alone = instrument.execute(capture, [BOTH[1]], batch=4, path="whole").outcomes[0]
        with instrument.installed(capture, list(edits[1])), torch.no_grad():
            prompt = instrument.prompt(capture.ids)
            installed = float(capture.margin.of(prompt.run_last()[0].double()))
            logits = prompt.run_last()[0]
    # Sums of 48 terms in each of three layers and in the head, of logits as large as the largest.
    rounding = 4 * 48 * FLOAT32 * float(logits.abs().max())
    assert abs(outcomes[0].effect - alone.effect) <= rounding
    assert abs(outcomes[1].effect - (installed - capture.baseline)) <= rounding
    assert abs(outcomes[1].effect - outcomes[2].effect) > rounding


def test_what_cannot_be_said_is_refused(tiny, ids):
    with attach(tiny("llama")) as instrument:
        capture = instrument.capture(ids, **ANSWERS)
        with pytest.raises(ValueError, match="must leave the key and value of the last token"):
            instrument.execute_several(capture, [(BOTH[0], ScaleValues(2, (19,), 0.5))])
        assert instrument.execute_several(capture, []) == ()
        assert len(instrument.execute_several(capture, [(ScaleValues(2, (19,), 0.5),)])) == 1
    with pytest.raises(ValueError, match="at least one edit"):
        by_layer(())
