"""A small GGUF file, written with the optional package gguf."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

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
