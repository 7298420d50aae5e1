"""What cannot be measured faithfully is refused with its reason, before anything runs."""

import pytest
import torch
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForSeq2SeqLM

from finite_calculus.models import UnsupportedModelError, supported
from finite_calculus.models.precision import cast_weights
from finite_calculus.models.refusals import REFUSALS
from finite_calculus.models.support import find_sites
from finite_calculus.models.tiny import tiny_config, tiny_model
from tests.helpers.dispatched import Hook, add_hook

SMALL = {
    "vocab_size": 64,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "pad_token_id": 0,
}
NO_INTERFACE = {
    "falcon": {
        "vocab_size": 64,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
    },
    "bloom": {"vocab_size": 64, "hidden_size": 32, "n_layer": 2, "n_head": 4},
    "gptj": {"vocab_size": 64, "n_embd": 32, "n_layer": 2, "n_head": 4, "rotary_dim": 4},
    "mpt": {"vocab_size": 64, "d_model": 32, "n_layers": 2, "n_heads": 4},
}


LATENT = {
    "num_key_value_heads": 4,
    "head_dim": 4,
    "q_lora_rank": 8,
    "kv_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 8,
    "v_head_dim": 6,
    "n_routed_experts": 2,
    "num_experts_per_tok": 1,
    "moe_intermediate_size": 16,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
    "index_topk": 4,
    "index_n_heads": 2,
    "index_head_dim": 8,
}


def build(family: str, **settings):
    config = AutoConfig.for_model(family, **settings)
    if family == "t5":
        return AutoModelForSeq2SeqLM.from_config(config).eval()
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()


# A tiny configuration of every family that the table of refusals names.
REFUSED = {
    **NO_INTERFACE,
    "qwen3_next": {
        **SMALL, "layer_types": ["linear_attention", "full_attention"], "num_experts": 2,
        "num_experts_per_tok": 1, "moe_intermediate_size": 16,
        "shared_expert_intermediate_size": 16, "linear_num_key_heads": 2,
        "linear_num_value_heads": 2, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
    },
    "deepseek_v32": {**SMALL, **LATENT},
    "gemma3n_text": {
        **SMALL, "num_kv_shared_layers": 1, "layer_types": ["full_attention"] * 2,
        "hidden_size_per_layer_input": 8, "vocab_size_per_layer_input": 64, "laurel_rank": 4,
        "intermediate_size": [48, 48], "activation_sparsity_pattern": [0.0, 0.0],
    },
    "t5": {"vocab_size": 64, "d_model": 32, "d_kv": 8, "d_ff": 32, "num_layers": 1, "num_heads": 4},
}  # fmt: skip
HEADS = {
    "no interface": "does not use the attention interface of transformers",
    "hybrid": "must be full or sliding softmax attention",
    "indexed": "must read all keys that its mask admits",
    "shared": "must have its own keys and values",
    "encoder": "must be a decoder",
}


@pytest.mark.parametrize("family", [f for each in REFUSALS.values() for f in each.families])
def test_a_family_of_the_table_is_refused_with_the_reason_of_the_table(family):
    (key,) = (key for key, each in REFUSALS.items() if family in each.families)
    model = build(family, **REFUSED[family])
    with pytest.raises(UnsupportedModelError, match=HEADS[key]) as refusal:
        supported(model)
    assert REFUSALS[key].reason in str(refusal.value)


def test_offloaded_weights_and_those_that_nothing_moves_are_refused():
    model = tiny_model("qwen2")
    head, where = model.lm_head, r"where a device_map put them whole; got cpu, "
    assert supported(model)
    with FakeTensorMode():
        head.weight = nn.Parameter(torch.empty(96, 48, device="cuda:1"), requires_grad=False)
    with pytest.raises(UnsupportedModelError, match=where + "cuda:1") as refusal:
        supported(model)
    assert REFUSALS["unmoved"].reason in str(refusal.value)
    add_hook(head, Hook(torch.device("cuda:1")))
    assert supported(model)
    head.weight = nn.Parameter(torch.empty(96, 48, device="meta"), requires_grad=False)
    with pytest.raises(UnsupportedModelError, match=where + "meta") as refusal:
        supported(model)
    assert REFUSALS["offloaded"].reason in str(refusal.value)


def test_weights_that_come_and_go_are_refused():
    model = tiny_model("qwen2")
    add_hook(model.lm_head, Hook(torch.device("cpu"), offload=True))
    with pytest.raises(UnsupportedModelError, match="device_map put them whole") as refusal:
        supported(model)
    assert REFUSALS["offloaded"].reason in str(refusal.value)


def test_a_hook_over_a_forward_of_its_own_is_a_foreign_patch():
    model = tiny_model("qwen2")
    block = model.model.layers[0]
    add_hook(block, Hook(torch.device("cpu")))
    assert supported(model)
    del block.forward, block._old_forward
    block.forward = lambda *args, **kwargs: None
    add_hook(block, Hook(torch.device("cpu")))
    with pytest.raises(UnsupportedModelError, match="block 0 has a forward of its own instance"):
        supported(model)


def test_a_model_that_adds_the_shift_of_an_image_is_refused(tiny):
    model = tiny("qwen2_5_vl")
    for shift, refused in ((0, False), (-3, True)):
        model.model.rope_deltas = torch.tensor([[shift]])
        try:
            if refused:
                with pytest.raises(UnsupportedModelError, match="must number positions from zero"):
                    supported(model)
            else:
                assert supported(model)
        finally:
            model.model.rope_deltas = None


def test_shared_keys_and_values_are_refused(tiny):
    model = tiny_model("qwen2")
    model.config.num_kv_shared_layers = 1
    with pytest.raises(UnsupportedModelError, match="shares them in 1 layers"):
        supported(model)


def test_a_layer_without_attention_is_refused():
    model = tiny_model("qwen2")
    model.config.num_hidden_layers = 4
    with pytest.raises(UnsupportedModelError, match=r"Each of the 4 layers .* found them at"):
        supported(model)


def test_training_mode_is_refused():
    with pytest.raises(UnsupportedModelError, match=r"Call model.eval\(\)"):
        supported(tiny_model("qwen2").train())


def test_weights_of_several_precisions_are_refused_but_float32_beside_another_is_not():
    model = cast_weights(tiny_model("qwen2"), torch.bfloat16)
    model.lm_head.to(torch.float32)
    assert supported(model)
    model.lm_head.to(torch.float16)
    with pytest.raises(UnsupportedModelError, match=r"in one of float32, .*; got torch.bfloat16, "):
        supported(model)


def test_frequencies_that_model_to_has_rounded_are_a_note():
    assert not any(
        "inv_freq" in note or "frequencies" in note for note in supported(tiny_model("llama")).notes
    )
    (note,) = supported(tiny_model("llama").to(torch.bfloat16)).notes
    assert "frequencies: rounded to torch.bfloat16" in note


def test_a_model_without_a_head_is_refused():
    with pytest.raises(UnsupportedModelError, match="must have a language-model head"):
        supported(tiny_model("qwen2").model)


@pytest.mark.usefixtures("unchecked_shapes")
def test_something_that_is_no_model_is_refused():
    with pytest.raises(TypeError, match="must be a transformers PreTrainedModel; got Linear"):
        supported(nn.Linear(2, 2))


def test_a_replaced_eager_function_is_found(tiny, monkeypatch):
    from transformers.models.qwen2 import modeling_qwen2

    genuine = modeling_qwen2.eager_attention_forward
    monkeypatch.setattr(modeling_qwen2, "eager_attention_forward", lambda *a, **k: genuine(*a, **k))
    with pytest.raises(UnsupportedModelError, match="eager_attention_forward of modeling_qwen2"):
        supported(tiny("qwen2"))


def test_a_wrapped_registered_function_is_found(tiny, monkeypatch):
    from transformers import AttentionInterface

    genuine = AttentionInterface._global_mapping["sdpa"]
    monkeypatch.setitem(
        AttentionInterface._global_mapping, "sdpa", lambda *a, **k: genuine(*a, **k)
    )
    with pytest.raises(UnsupportedModelError, match="attention function 'sdpa' is"):
        supported(tiny("qwen2"))


def test_forward_hooks_of_others_are_found():
    model = tiny_model("qwen2")
    model.model.layers[1].self_attn.register_forward_hook(lambda *a: None)
    with pytest.raises(
        UnsupportedModelError, match=r"found foreign patches: .*self_attn has forward hooks"
    ):
        supported(model)


def test_a_forward_on_an_instance_is_found():
    model = tiny_model("qwen2")
    block = model.model.layers[0]
    block.forward = block.forward
    with pytest.raises(UnsupportedModelError, match="block 0 has a forward of its own instance"):
        supported(model)


@pytest.mark.parametrize(
    ("family", "note"),
    [
        ("gemma2", "softcap"),
        ("qwen3", "query norm"),
        ("gpt_oss", "sinks"),
        ("gemma2", "sliding"),
        ("llama4_text", "chunks"),
        ("qwen2_5_vl", "multimodal"),
    ],
)
def test_features_that_restrict_the_calculus_are_noted(tiny, family, note):
    assert any(text.startswith(note) for text in supported(tiny(family)).notes)


def test_sites_are_those_of_the_model_in_order(tiny):
    sites = find_sites(tiny("qwen2"))
    assert [site.layer for site in sites] == [0, 1, 2]
    assert sites[1].block is tiny("qwen2").model.layers[1]
    assert sites[1].projection is tiny("qwen2").model.layers[1].self_attn.o_proj


def test_an_attention_module_without_its_parts_is_refused():
    model = tiny_model("qwen2")
    model.model.layers[0].self_attn.layer_idx = None
    with pytest.raises(
        UnsupportedModelError, match="must have a layer index, an output projection"
    ):
        supported(model)


def test_borrowed_keys_and_values_are_refused():
    model = tiny_model("qwen2")
    model.model.layers[2].self_attn.is_kv_shared_layer = True
    with pytest.raises(UnsupportedModelError, match=r"layers\.2\.self_attn borrows them"):
        supported(model)


def test_a_forward_from_elsewhere_is_found(tiny, monkeypatch):
    kind = type(tiny("qwen2").model.layers[0].self_attn)
    genuine = kind.forward
    names = {"genuine": genuine, **genuine.__globals__}
    code = "def forward(self, *a, **k):\n    ALL_ATTENTION_FUNCTIONS\n    return genuine(self, *a, **k)"
    exec(compile(code, "elsewhere.py", "exec"), names)
    monkeypatch.setattr(kind, "forward", names["forward"])
    with pytest.raises(
        UnsupportedModelError, match=r"self_attn.forward is forward of elsewhere\.py"
    ):
        supported(tiny("qwen2"))


def test_an_unknown_tiny_family_is_refused():
    with pytest.raises(ValueError, match="`family` must be one of qwen2, llama"):
        tiny_config("megatron")
