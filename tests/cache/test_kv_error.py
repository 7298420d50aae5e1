"""Transforms of a cache: quantisers keep their levels, errors are exact, the gate names faults."""

from xml.etree import ElementTree

import pytest
import torch

from finite_calculus.cache import Quantiser, cache_error, named_transform, transform_gate, watch
from finite_calculus.models import Quantise, predict
from finite_calculus.models.edits.base import attended_tokens
from finite_calculus.models.tiny import tiny_model


def drawn(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(4))


@pytest.mark.parametrize("axis", ["vector", "channel", "group32", "group64"])
@pytest.mark.parametrize("kind", ["sym", "asym"])
def test_a_quantiser_has_few_levels_and_errs_by_half_of_one(kind: str, axis: str) -> None:
    keys, values = drawn(2, 9, 64), drawn(2, 9, 64) + 3
    for bits in (2, 4, 8):
        made = named_transform(f"{kind}{bits}/{axis}")(keys, values, 0)
        for before, after in zip((keys, values), made, strict=True):
            whole = before.mT if axis == "channel" else before
            rounded = after.mT if axis == "channel" else after
            size = {"group32": 32, "group64": 64}.get(axis, whole.shape[-1])
            whole, rounded = (x.unflatten(-1, (-1, size)) for x in (whole, rounded))
            low, high = whole.amin(-1), whole.amax(-1)
            span = (high - low) if kind == "asym" else 2 * whole.abs().amax(-1)
            steps = 2**bits - 1 if kind == "asym" else 2**bits - 2
            slack = 1 + 16 * torch.finfo(torch.float32).eps * 2**bits
            assert bool(((whole - rounded).abs().amax(-1) <= span / steps / 2 * slack).all())
            assert all(len(row.unique()) <= 2**bits for row in rounded.flatten(0, -2))


def test_the_split_adds_up_and_is_that_of_the_edit(embedded) -> None:
    capture, instrument = embedded.capture, embedded.instrument
    windows = watch(instrument.model, capture.ids, queries=2)
    error = cache_error(instrument, capture, windows, named_transform("sym3/vector"))
    assert len(error.layers) == len(windows)
    assert [x.mean for x in error.layers] == sorted((x.mean for x in error.layers), reverse=True)
    for layer in error.layers:
        captured = capture.layer(layer.layer)
        edit = Quantise(layer.layer, attended_tokens(captured)[:-1], 3)
        predicted = predict(captured, edit)
        size = float(captured.write.double().norm())
        assert layer.relative[-1] == pytest.approx(float(predicted.write.norm()) / size, rel=1e-3)
        outcome = instrument.execute(capture, [edit]).outcomes[0]
        assert layer.effect == pytest.approx(outcome.effect, rel=1e-2, abs=1e-4)
        first = sum(head.first_order for head in layer.heads)
        bound = sum(head.bound for head in layer.heads)
        assert abs(predicted.effect - first) <= bound * 1.001 + 1e-5
        for head in layer.heads:
            assert head.write <= head.key + head.value + head.interaction
            assert head.divergence >= 0
    assert error.divergence > 0


def test_a_transform_that_changes_nothing_has_no_error(llama) -> None:
    windows = watch(llama.instrument.model, llama.capture.ids, queries=2)
    error = cache_error(llama.instrument, llama.capture, windows, lambda k, v, layer: (k, v))
    assert error.effect == error.divergence == 0.0
    assert all(layer.relative == (0.0, 0.0) for layer in error.layers)


@pytest.fixture(scope="module")
def gated():
    ids = torch.randint(3, 96, (20,), generator=torch.Generator().manual_seed(6))
    return tiny_model("llama"), ids


def test_a_faithful_transform_opens_the_gate(gated) -> None:
    def through_bytes(keys, values, layer):
        return tuple(
            torch.frombuffer(bytearray(x.numpy().tobytes()), dtype=torch.float32).reshape(x.shape)
            for x in (keys.contiguous(), values.contiguous())
        )

    report = transform_gate(gated[0], through_bytes, gated[1])
    assert report.passed, report.content()
    assert len(report.checks) == 3


def test_a_coarse_transform_needs_an_allowance(gated, tmp_path) -> None:
    model, ids = gated
    shut = transform_gate(model, Quantiser(4), ids, name="sym4/vector")
    assert [check.passed for check in shut.checks] == [True, True, False]
    assert transform_gate(model, Quantiser(4), ids, allow=0.5).passed
    assert not transform_gate(model, Quantiser(4), ids, allow=1e-4).passed
    shut.save_junit(tmp_path / "junit.xml")
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("3", "1")
    assert "times what rounding allows" in suite.findall("testcase/failure")[0].get("message", "")


def test_faulty_transforms_are_named(gated) -> None:
    model, ids = gated
    # One scale for a channel over all tokens: a later token changes what an earlier one reads as.
    channel = transform_gate(model, Quantiser(4, keys="channel", values="channel"), ids, allow=1.0)
    leak = {check.name: check for check in channel.checks}["no later token reaches an earlier one"]
    assert not leak.passed
    assert "layer 0" in leak.words
    (short,) = transform_gate(model, lambda k, v, layer: (k[:, 1:], v), ids).checks
    assert "must return keys of shape" in short.words
    draw = torch.Generator().manual_seed(0)

    def noisy(keys, values, layer):
        return keys + 1e-3 * torch.randn(keys.shape, generator=draw), values

    (again,) = transform_gate(model, noisy, ids).checks
    assert "other results the second time" in again.words


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("sym9/vector", "`bits` must be between 2 and 8"),
        ("sym4/row", "`keys` must be one of"),
        ("four bits", "A transform must be package:function"),
        ("nonesuch_package:function", "cannot be had"),
        ("math:nonesuch", "cannot be had"),
        ("math:pi", "must be a function"),
    ],
)
def test_unknown_transforms_are_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        named_transform(text)
    with pytest.raises(ValueError, match="Groups of 32 must divide the width"):
        Quantiser(4, keys="group32")(drawn(1, 2, 8), drawn(1, 2, 8), 0)
