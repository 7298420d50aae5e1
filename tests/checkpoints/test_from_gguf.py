"""GGUF, converted: a small file written here, and what is refused. Needs the optional `gguf`."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from finite_calculus.checkpoints import CheckpointError, from_gguf

gguf = pytest.importorskip("gguf", reason="needs the optional package gguf")
WIDTH, HIDDEN, HEADS, GROUPS, TOKENS = 64, 96, 4, 2, 40


def interleaved(rows: np.ndarray, heads: int) -> np.ndarray:
    """llama.cpp's own permutation of q and k, from its converter: the inverse of what we do."""
    return (
        rows.reshape(heads, 2, rows.shape[0] // heads // 2, *rows.shape[1:])
        .swapaxes(1, 2)
        .reshape(rows.shape)
    )


def weights() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    grouped = WIDTH // HEADS * GROUPS
    sizes = {
        "token_embd": (TOKENS, WIDTH),
        "output_norm": (WIDTH,),
        "blk.0.attn_norm": (WIDTH,),
        "blk.0.attn_q": (WIDTH, WIDTH),
        "blk.0.attn_k": (grouped, WIDTH),
        "blk.0.attn_v": (grouped, WIDTH),
        "blk.0.attn_output": (WIDTH, WIDTH),
        "blk.0.ffn_norm": (WIDTH,),
        "blk.0.ffn_gate": (HIDDEN, WIDTH),
        "blk.0.ffn_up": (HIDDEN, WIDTH),
        "blk.0.ffn_down": (WIDTH, HIDDEN),
    }
    return {name: rng.normal(size=size).astype(np.float32) for name, size in sizes.items()}


def written(path: Path, tensors: dict[str, np.ndarray], *, theta: bool = True) -> Path:
    """A Llama with a byte-level tokenizer of single letters; the value matrix is quantised."""
    writer: Any = gguf.GGUFWriter(path, "llama")
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(HIDDEN)
    writer.add_block_count(1)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(GROUPS)
    writer.add_context_length(32)
    writer.add_layer_norm_rms_eps(1e-5)
    if theta:
        writer.add_rope_freq_base(5e4)
    writer.add_tokenizer_model("gpt2")
    letters = [chr(n) for n in range(ord("A"), ord("A") + TOKENS - 3)]
    writer.add_token_list(["<s>", "</s>", *letters, "AB"])
    writer.add_token_merges(["A B"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    quantised = gguf.GGMLQuantizationType.Q8_0
    for name, tensor in tensors.items():
        if name.endswith("attn_v"):
            data = gguf.quants.quantize(tensor, quantised)
            writer.add_tensor(f"{name}.weight", data, raw_dtype=quantised)
        else:
            heads = {"blk.0.attn_q": HEADS, "blk.0.attn_k": GROUPS}.get(name)
            stored = interleaved(tensor, heads) if heads else tensor
            writer.add_tensor(f"{name}.weight", np.ascontiguousarray(stored))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


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
