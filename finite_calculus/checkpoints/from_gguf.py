"""Convert a Llama in a GGUF file to safetensors, dequantised to float32 by the `gguf` package.

GGUF stores q and k rows interleaved as llama2.c does, so that they are reordered the same way. The
tokenizer is read by transformers. Done here rather than by transformers' model loader, which asks for
`accelerate` as well; the two give the same tensors.
"""

import importlib.util
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

from finite_calculus.checkpoints.errors import CheckpointError
from finite_calculus.checkpoints.llama2c import uninterleave

_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}


def convert(source: Path, target: Path) -> None:
    """Write model and tokenizer to `target`; needs the optional package `gguf`."""
    require_gguf()
    from gguf import GGUFReader  # optional

    try:
        reader = GGUFReader(source)
    except Exception as error:  # of a reader that trusts every number of the file
        raise CheckpointError(f"{source.name} is no whole GGUF file: {error!r}.") from error
    tied = all(tensor.name != "output.weight" for tensor in reader.tensors)
    try:
        config = _config(reader, tied)
        state = _state(reader, config)
    except CheckpointError:
        raise
    except Exception as error:  # about names, numbers and shapes that may be anything
        raise CheckpointError(f"{source.name} does not hold a Llama: {error!r}.") from error
    _require_complete(source, state, config)
    config.architectures = ["LlamaForCausalLM"]
    config.save_pretrained(target)
    safetensors.torch.save_file(state, target / "model.safetensors", metadata={"format": "pt"})
    tokenizer = AutoTokenizer.from_pretrained(
        str(source.parent), gguf_file=source.name, local_files_only=True
    )
    tokenizer.save_pretrained(target)


def require_gguf() -> None:
    """Refuse before anything is downloaded."""
    if importlib.util.find_spec("gguf") is None:
        raise CheckpointError(
            "Reading a GGUF checkpoint needs the package `gguf`, which is not installed. "
            "Install it with: pip install 'finite-calculus[gguf]'"
        )


def _config(reader: Any, tied: bool) -> LlamaConfig:
    def fact(key: str, *, required: bool = True) -> Any:
        field = reader.get_field(key)
        if field is None and not required:
            return None
        if field is None:
            raise CheckpointError(
                f"The GGUF file does not say {key}: it is not a Llama. Report this."
            )
        return field.contents()

    vocabulary = len(fact("tokenizer.ggml.tokens"))
    return LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=fact("llama.embedding_length"),
        intermediate_size=fact("llama.feed_forward_length"),
        num_hidden_layers=fact("llama.block_count"),
        num_attention_heads=fact("llama.attention.head_count"),
        num_key_value_heads=fact("llama.attention.head_count_kv"),
        max_position_embeddings=fact("llama.context_length"),
        rms_norm_eps=fact("llama.attention.layer_norm_rms_epsilon"),
        rope_parameters={"rope_type": "default", "rope_theta": fact("llama.rope.freq_base")},
        tie_word_embeddings=tied,
        bos_token_id=fact("tokenizer.ggml.bos_token_id"),
        eos_token_id=fact("tokenizer.ggml.eos_token_id"),
        pad_token_id=fact("tokenizer.ggml.padding_token_id", required=False),
        dtype="float32",
    )


def _state(reader: Any, config: LlamaConfig) -> dict[str, torch.Tensor]:
    from gguf.quants import dequantize  # optional

    state = {}
    for tensor in reader.tensors:
        weight = dequantize(tensor.data, tensor.tensor_type)
        name = _WHOLE.get(tensor.name)
        if name is None:
            _, layer, part, _ = tensor.name.split(".")
            name = f"model.layers.{layer}.{_LAYER[part]}.weight"
            heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
            weight = uninterleave(weight, heads[part]) if part in heads else weight
        state[name] = torch.from_numpy(weight.astype("float32"))
    return state


def _require_complete(source: Path, state: dict[str, torch.Tensor], config: LlamaConfig) -> None:
    """Every weight of the architecture, in its shape, and no other."""
    with torch.device("meta"):
        wanted = LlamaForCausalLM(config).state_dict()
    if config.tie_word_embeddings:
        wanted.pop("lm_head.weight")
    shapes = {name: tuple(weight.shape) for name, weight in wanted.items()}
    actual = {name: tuple(weight.shape) for name, weight in state.items()}
    odd = sorted(
        name for name in shapes.keys() | actual.keys() if shapes.get(name) != actual.get(name)
    )
    if odd:
        raise CheckpointError(f"{source.name} does not hold the tensors of its Llama: {odd[:5]}.")
