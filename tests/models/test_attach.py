"""Attaching changes nothing that outlives its block, and inside it runs the model's own attention."""

import pytest
import torch
from transformers import AttentionInterface, AttentionMaskInterface

from finite_calculus.models import Delete, Odds, attach
from finite_calculus.models.install import check_installed
from finite_calculus.models.session import _ACTIVE
from finite_calculus.models.support import UnsupportedModelError, find_sites
from finite_calculus.models.tiny import tiny_model


def state(model, ids):
    """Everything that has to be the same afterwards."""
    sites = find_sites(model)
    with torch.no_grad():
        logits = model(input_ids=ids.unsqueeze(0)).logits
    return {
        "implementation": model.config._attn_implementation,
        "registered": sorted(AttentionInterface._global_mapping),
        "masks": sorted(AttentionMaskInterface._global_mapping),
        "functions": [id(site.eager) for site in sites],
        "forwards": [name for name, m in model.named_modules() if "forward" in vars(m)],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
        "gradients": [p.grad is None for p in model.parameters()],
        "session": _ACTIVE.get(),
        "logits": logits.numpy().tobytes(),
    }


@pytest.mark.parametrize(
    ("family", "implementation"),
    [("qwen2", "eager"), ("qwen2", "sdpa"), ("llama", "sdpa"), ("gemma2", "eager")],
)
def test_everything_is_restored_after_capture_and_execution(tiny, ids, family, implementation):
    model = tiny_model(family)
    model.set_attn_implementation(implementation)
    before = state(model, ids)
    with attach(model) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        instrument.execute(capture, [Odds(1, (15,), 2.0), Delete(2, (15,))])
        assert model.config._attn_implementation == instrument.name
    assert state(model, ids) == before


def test_everything_is_restored_after_an_exception(tiny, ids):
    model = tiny("qwen2")
    before = state(model, ids)

    def fail():
        with attach(model) as instrument:
            instrument.capture(ids, answer=3, versus=5)
            raise KeyError("boom")

    with pytest.raises(KeyError, match="boom"):
        fail()
    assert state(model, ids) == before


def test_everything_is_restored_when_a_forward_pass_fails_inside_an_execution(
    tiny, ids, monkeypatch
):
    model = tiny("qwen2")
    before = state(model, ids)
    with attach(model) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)

        def fail(*args, **kwargs):
            raise RuntimeError("broken head")

        with monkeypatch.context() as patch:
            patch.setattr(model.lm_head, "forward", fail)
            with pytest.raises(RuntimeError, match="broken head"):
                instrument.execute(capture, [Odds(2, (15,), 2.0)])
        assert not [n for n, m in model.named_modules() if "layers" in n and "forward" in vars(m)]
    assert state(model, ids) == before


def test_nested_blocks_restore_each_its_own(tiny, ids):
    model, other = tiny("qwen2"), tiny("llama")
    before = state(model, ids), state(other, ids)
    with attach(model) as outer:
        first = outer.capture(ids, answer=3, versus=5)
        with attach(model) as inner, attach(other) as beside:
            second = inner.capture(ids, answer=3, versus=5)
            beside.capture(ids, answer=3, versus=5)
            with pytest.raises(UnsupportedModelError, match="must be 'finite_calculus_"):
                outer.capture(ids, answer=3, versus=5)
        third = outer.capture(ids, answer=3, versus=5)
    assert first.baseline == second.baseline == third.baseline
    assert (state(model, ids), state(other, ids)) == before


def test_inside_the_block_the_model_is_its_own_eager_self_bit_for_bit(tiny, ids):
    model = tiny_model("qwen2")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        eager = model(input_ids=ids.unsqueeze(0)).logits
        with attach(model):
            inside = model(input_ids=ids.unsqueeze(0)).logits
    assert torch.equal(eager, inside)


def test_an_instrument_refuses_to_work_outside_its_block(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
    with pytest.raises(RuntimeError, match=r"or before `close\(\)`; the model .* Attach again"):
        instrument.execute(capture, [Odds(1, (15,), 2.0)])


def test_an_implementation_that_was_not_installed_is_noticed(tiny):
    with pytest.raises(UnsupportedModelError, match="must be 'elsewhere' after installing"):
        check_installed(find_sites(tiny("qwen2")), "elsewhere")


def test_a_missing_mask_registration_is_refused(tiny, monkeypatch):
    monkeypatch.setattr(AttentionMaskInterface, "register", classmethod(lambda *a: None))
    with (
        pytest.raises(UnsupportedModelError, match=r"mask function of .* must be eager_mask"),
        attach(tiny("qwen2")),
    ):
        pass


def test_a_library_that_wraps_what_is_registered_is_refused(tiny, monkeypatch):
    def register(cls, key, value):
        cls._global_mapping[key] = lambda *a, **k: value(*a, **k)

    monkeypatch.setattr(AttentionInterface, "register", classmethod(register))
    with (
        pytest.raises(UnsupportedModelError, match="another library wraps what is registered"),
        attach(tiny("qwen2")),
    ):
        pass
