"""GGUF, converted: a small file written here, and what is refused. Needs the optional `gguf`."""

from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from finite_calculus.checkpoints import CheckpointError, from_gguf
from tests.helpers.gguf_file import gguf, weights, written


def test_every_tensor_arrives_in_its_place_and_order(tmp_path: Path):
    tensors = weights()
    from_gguf.convert(written(tmp_path / "model.gguf", tensors), tmp_path / "model")
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    assert model.config.rope_parameters["rope_theta"] == 5e4
    assert model.config.tie_word_embeddings
    layer = model.model.layers[0]
    modules = {
        "token_embd": model.model.embed_tokens,
        "output_norm": model.model.norm,
        "blk.0.attn_norm": layer.input_layernorm,
        "blk.0.attn_q": layer.self_attn.q_proj,
        "blk.0.attn_k": layer.self_attn.k_proj,
        "blk.0.attn_output": layer.self_attn.o_proj,
        "blk.0.ffn_norm": layer.post_attention_layernorm,
        "blk.0.ffn_gate": layer.mlp.gate_proj,
        "blk.0.ffn_up": layer.mlp.up_proj,
        "blk.0.ffn_down": layer.mlp.down_proj,
    }
    for name, module in modules.items():
        assert torch.equal(module.weight, torch.from_numpy(tensors[name])), name
    quantised = gguf.quants.quantize(tensors["blk.0.attn_v"], gguf.GGMLQuantizationType.Q8_0)
    expected = gguf.quants.dequantize(quantised, gguf.GGMLQuantizationType.Q8_0)
    assert torch.equal(layer.self_attn.v_proj.weight, torch.from_numpy(expected))
    assert AutoTokenizer.from_pretrained(tmp_path / "model")("CA").input_ids[-2:] == [4, 2]


def test_a_file_that_is_no_llama_is_refused(tmp_path: Path):
    path = written(tmp_path / "model.gguf", weights(), theta=False)
    with pytest.raises(CheckpointError, match=r"does not say llama\.rope\.freq_base"):
        from_gguf.convert(path, tmp_path / "model")


def test_a_file_without_one_of_its_tensors_is_refused(tmp_path: Path):
    tensors = weights()
    del tensors["blk.0.ffn_up"]
    path = written(tmp_path / "model.gguf", tensors)
    with pytest.raises(
        CheckpointError, match=r"does not hold the tensors of its Llama: .*mlp\.up_proj"
    ):
        from_gguf.convert(path, tmp_path / "model")


def test_a_file_that_is_cut_off_is_refused(tmp_path: Path):
    path = written(tmp_path / "model.gguf", weights())
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(CheckpointError, match="is no whole GGUF file"):
        from_gguf.convert(path, tmp_path / "model")


@pytest.mark.parametrize("name", ["blk.0.attn_z", "stranger", "blk.0.attn_q.a.b"])
def test_a_file_with_a_tensor_that_no_llama_has_is_refused(name: str, tmp_path: Path):
    path = written(tmp_path / "model.gguf", {**weights(), name: np.ones((2, 2), np.float32)})
    with pytest.raises(CheckpointError, match=r"model\.gguf does not hold a Llama"):
        from_gguf.convert(path, tmp_path / "model")
