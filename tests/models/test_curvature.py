"""The second order downstream: the model's own Hessian, along directions that hold the writes."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from finite_calculus.models import attach, load_capture, predict, save_capture
from finite_calculus.models.directions import principal, write_directions
from finite_calculus.models.hessian import hessian_products
from finite_calculus.models.kinds import TOKEN_KINDS
from finite_calculus.models.storage import same_tensors
from finite_calculus.models.support import UnsupportedModelError
from finite_calculus.models.tiny import FAMILIES, tiny_model
from finite_calculus.models.writes import kind_writes, token_pulls
from tests.helpers.hessians import (
    ANSWERS,
    FLOAT32,
    full_hessian,
    margin_of_offset,
    rounding_of,
)


def apart(actual: Tensor, expected: Tensor) -> Tensor:
    return (actual - expected).abs().max()


@pytest.mark.parametrize("family", ["llama", "gemma2", "gpt2", "gpt_oss", "cohere2"])
@pytest.mark.parametrize("layer", [0, 2])
def test_products_are_those_of_the_whole_hessian(tiny, ids, family, layer):
    expected = full_hessian(family, ids, layer)
    with attach(tiny(family)) as instrument:
        capture = instrument.capture(ids, **ANSWERS, layers=[layer])
        prompt = instrument.prompt(capture.ids)
        _, (products,) = hessian_products(prompt, capture.margin, [layer], [torch.eye(48)])
    assert float(expected.abs().max()) > 0
    assert float((products - expected).abs().max()) <= rounding_of(expected)


def test_products_are_differences_of_gradients(ids):
    model = tiny_model("gpt2").double()
    model.set_attn_implementation("eager")
    function = margin_of_offset(model, ids, 1)
    direction = torch.randn(48, generator=torch.Generator().manual_seed(4), dtype=torch.float64)
    step = 1e-4

    def slope(size: float) -> Tensor:
        offset = (size * direction).requires_grad_(True)
        return torch.autograd.grad(function(offset), offset)[0]

    expected = (slope(step) - slope(-step)) / (2 * step)
    with attach(tiny_model("gpt2")) as instrument:
        capture = instrument.capture(ids, **ANSWERS, layers=[1])
        prompt = instrument.prompt(capture.ids)
        starts = [direction.float().unsqueeze(0)]
        gradients, (products,) = hessian_products(prompt, capture.margin, [1], starts)
    # The truncation of a central difference, 1e-8 of the direction's cube, is below float32 here.
    assert float((products[0] - expected).abs().max()) <= rounding_of(expected)
    gradient = capture.layer(1).gradient_write
    assert apart(gradients[0], gradient) <= rounding_of(gradient)


def test_the_form_is_symmetric_within_and_between_layers(tiny, ids):
    with attach(tiny("llama")) as instrument:
        capture = instrument.capture(ids, **ANSWERS, curvature=5)
        prompt = instrument.prompt(capture.ids)
        bent = capture.curvature
        assert bent is not None
        rows = [bent.rows(layer) for layer in range(3)]
        bases = [bent.basis[each] for each in rows]
        _, changes = hessian_products(prompt, capture.margin, [0, 1, 2], bases)
    assert torch.equal(bent.form, bent.form.T)
    whole = torch.cat([change @ basis.T for change, basis in zip(changes, bases, strict=True)], 1)
    allowed = rounding_of(whole)
    assert float((whole - whole.T).abs().max()) <= allowed
    assert float((whole - bent.form).abs().max()) <= allowed
    assert max(bent.asymmetry) <= allowed
    assert min(bent.asymmetry) >= 0


@pytest.mark.parametrize(("family", "limit"), [("qwen2", "_STAIR_ROWS"), ("gpt2", "_ROWS")])
def test_layers_in_separate_passes_have_the_same_form(tiny, ids, family, limit, monkeypatch):
    import finite_calculus.models.products as module

    with attach(tiny(family)) as instrument:
        together = instrument.capture(ids, **ANSWERS, curvature=4).curvature
        monkeypatch.setattr(module, limit, 4)
        apart = instrument.capture(ids, **ANSWERS, curvature=4).curvature
    assert together is not None
    assert apart is not None
    allowed = rounding_of(together.form)
    assert float((together.form - apart.form).abs().max()) <= allowed
    assert not bool(apart.form.isnan().any())


@pytest.mark.parametrize("family", FAMILIES)
def test_writes_of_all_tokens_are_those_of_each_prediction(tiny, ids, family):
    with attach(tiny(family)) as instrument:
        layer = instrument.capture(ids, **ANSWERS, layers=[1]).layer(1)
    columns = layer.attended.nonzero().squeeze(-1)
    (prepared,) = token_pulls(layer, columns)
    writes = kind_writes(prepared, TOKEN_KINDS)
    for place, kind in enumerate(TOKEN_KINDS):
        for column in (0, len(columns) // 2, len(columns) - 1):
            if not bool(kind.allowed(layer)[columns[column]]):
                assert not bool(writes[column, place].any())
                continue
            token = int(columns[column]) + layer.first
            expected = predict(layer, kind.at(1, (token,))).write
            scale = layer.output_projection.abs().sum((0, 1)) * layer.values.abs().max()
            assert bool(((writes[column, place] - expected).abs() <= 48 * FLOAT32 * scale).all())


def test_writes_in_pieces_are_the_same(tiny, ids, monkeypatch):
    import finite_calculus.models.writes as module

    with attach(tiny("llama")) as instrument:
        layer = instrument.capture(ids, **ANSWERS, layers=[1]).layer(1)
    columns = torch.arange(20)
    (whole,) = token_pulls(layer, columns)
    monkeypatch.setattr(module, "_ENTRIES", 6 * 48 * 3)
    pieces = list(token_pulls(layer, columns))
    assert len(pieces) == 7
    joined = torch.cat([kind_writes(piece, TOKEN_KINDS) for piece in pieces])
    expected = kind_writes(whole, TOKEN_KINDS)
    assert apart(joined, expected) <= rounding_of(expected)


def test_directions_hold_as_much_as_the_best_of_their_number(tiny, ids):
    with attach(tiny("llama")) as instrument:
        layer = instrument.capture(ids, **ANSWERS, layers=[1]).layer(1)
    (prepared,) = token_pulls(layer, torch.arange(20))
    writes = kind_writes(prepared, TOKEN_KINDS).flatten(0, 1).double()
    basis = write_directions(layer, 6, TOKEN_KINDS).double()
    assert apart(basis @ basis.T, torch.eye(6).double()) <= rounding_of(torch.ones(1))
    sizes = torch.linalg.svdvals(writes)
    inside = (writes @ basis.T).square().sum()
    assert float(inside / sizes[:6].square().sum()) > 0.999


def test_fewer_directions_come_where_the_writes_span_fewer():
    writes = torch.zeros(30, 12)
    writes[:, :2] = torch.randn(30, 2, generator=torch.Generator().manual_seed(0))
    assert principal(writes, torch.eye(12), 8).shape == (2, 12)


def test_second_order_terms_are_quadratic_forms_and_name_what_is_outside(tiny, ids):
    hessian = full_hessian("llama", ids, 1)
    with attach(tiny("llama")) as instrument:
        capture = instrument.capture(ids, **ANSWERS, layers=[1], curvature=6)
    bent = capture.curvature
    assert bent is not None
    writes = torch.randn(5, 48, generator=torch.Generator().manual_seed(2))
    writes[0] = bent.basis.sum(0)
    second = bent.second(1, writes)
    inside = writes.double() @ bent.basis.double().T @ bent.basis.double()
    rest = writes.double() - inside
    missing = 0.5 * torch.einsum("ni,ij,nj->n", rest, hessian, rest)
    whole = 0.5 * torch.einsum("ni,ij,nj->n", writes.double(), hessian, writes.double())
    allowed = rounding_of(hessian) * writes.double().square().sum(-1) * 48
    assert bool(((second.term - (whole - missing)).abs() <= allowed).all())
    assert second.outside[0] <= rounding_of(second.size[0])
    assert apart(second.outside.double(), rest.norm(dim=-1)) <= rounding_of(second.size)
    assert float(bent.rounding(1, torch.tensor(2.0))) == pytest.approx(2 * bent.asymmetry[0])


def test_a_saved_capture_has_the_same_second_order_without_the_model(tiny, ids, tmp_path):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, **ANSWERS, curvature=3)
        plain = instrument.capture(ids, **ANSWERS)
    loaded = load_capture(save_capture(capture, tmp_path / "bent.safetensors"))
    assert same_tensors(capture, loaded)
    assert not same_tensors(capture, plain)
    assert load_capture(save_capture(plain, tmp_path / "p.safetensors")).curvature is None
    assert loaded.curvature is not None
    assert capture.curvature is not None
    writes = torch.randn(4, 48, generator=torch.Generator().manual_seed(2))
    for layer in range(3):
        first, again = (each.curvature.second(layer, writes) for each in (capture, loaded))
        assert torch.equal(first.term, again.term)
    moved = replace(capture.curvature, products=capture.curvature.products + 1)
    assert not same_tensors(capture, replace(capture, curvature=moved))


def test_a_capture_without_curvature_is_what_it_was(tiny, ids):
    with attach(tiny("llama")) as instrument:
        plain = instrument.capture(ids, **ANSWERS)
        bent = instrument.capture(ids, **ANSWERS, curvature=2)
    assert plain.curvature is None
    assert same_tensors(plain, replace(bent, curvature=None))
    assert all(layer.residual is not None and layer.residual > 0 for layer in plain.layers)


@pytest.mark.parametrize(
    ("family", "reason"), [("qwen3_moe", "hard switch"), ("opt", "bends in a point"), ("llama", "")]
)
def test_a_second_derivative_that_the_model_does_not_have_is_said(tiny, ids, family, reason):
    model = tiny(family)
    before = model.config._experts_implementation if family == "qwen3_moe" else None
    with attach(model) as instrument:
        bent = instrument.capture(ids, **ANSWERS, curvature=2).curvature
    assert bent is not None
    assert reason in bent.not_smooth
    assert bool(bent.not_smooth) == bool(reason)
    if before is not None:
        assert model.config._experts_implementation == before


def test_bad_numbers_of_directions_and_layers_are_refused(tiny, ids):
    with attach(tiny("llama")) as instrument:
        with pytest.raises(ValueError, match="`curvature` must be a number of directions"):
            instrument.capture(ids, **ANSWERS, curvature=-1)
        bent = instrument.capture(ids, **ANSWERS, layers=[1], curvature=2).curvature
    assert bent is not None
    with pytest.raises(ValueError, match="`layer` must have captured curvature"):
        bent.second(0, torch.zeros(1, 48))


def test_a_model_without_second_derivatives_is_refused_with_the_reason(ids):
    class Distance(torch.nn.Module):
        """An activation through a distance whose gradient torch cannot differentiate."""

        def forward(self, gate: Tensor) -> Tensor:
            rows = gate.flatten(0, -2)
            return gate * torch.cdist(rows, rows + 1, p=1.5).mean()

    model = tiny_model("llama")
    model.model.layers[-1].mlp.act_fn = Distance()
    with (
        attach(model) as instrument,
        pytest.raises(UnsupportedModelError, match="needs a second derivative of everything above"),
    ):
        instrument.capture(ids, **ANSWERS, curvature=2)
