"""The second order along given writes is that of the model's margin, which execution shows."""

import pytest
import torch

from finite_calculus.checkpoints import load
from finite_calculus.models import attach

LAYERS = (0, 1)


@pytest.fixture(scope="module")
def instrument():
    model, tokenizer = load("tiny-qwen2")
    with attach(model, tokenizer=tokenizer) as attached:
        yield attached


@pytest.fixture(scope="module")
def capture(instrument):
    return instrument.capture(range(3, 27), answer=3, versus=5, layers=LAYERS, curvature=4)


def test_writes_along_captured_directions_have_the_captured_form(instrument, capture):
    curvature = capture.curvature
    scales = torch.tensor([2.0, -0.5, 1e-3, 7.0], dtype=torch.float64)
    bases = {n: curvature.basis[curvature.rows(n)].double() for n in LAYERS}
    terms = instrument.second_terms(capture, {n: scales[:, None] * bases[n] for n in LAYERS})
    for n in LAYERS:
        rows = curvature.rows(n)
        form = torch.diagonal(curvature.form[rows, rows]).double()
        # Both are float32 products along unit directions; the form's own asymmetry measures their rounding.
        allowed = 4 * curvature.asymmetry[LAYERS.index(n)] + 1e-6 * float(form.abs().max())
        apart = (terms[n] / scales.square() - form / 2).abs()
        assert float(apart.max()) <= allowed
        assert float(form.abs().max()) > 10 * allowed


def test_a_write_of_zero_has_no_second_order(instrument, capture):
    width = capture.layer(1).write.shape[0]
    terms = instrument.second_terms(capture, {1: torch.zeros(2, width, dtype=torch.float64)})
    assert terms[1].tolist() == [0.0, 0.0]
