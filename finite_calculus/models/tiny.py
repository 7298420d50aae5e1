"""Tiny random models of every supported family, built from configurations, without any download.

They exercise the native code of each family: grouped heads, biases, norms, windows, caps, sinks,
partial and interleaved rotations. Their weights are random and seeded; their answers mean nothing.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import torch
from transformers import AutoConfig, PreTrainedModel

from finite_calculus.models.support import language_model_class

_COMMON: dict[str, Any] = {
    "vocab_size": 96,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
_GROUPED = {**_COMMON, "head_dim": 8}
_PLAIN = {**_COMMON, "num_key_value_heads": 6}
_MIXED = {
    "sliding_window": 8,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
}
_EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
_LATENT = {
    **_PLAIN,
    "q_lora_rank": None,
    "kv_lora_rank": 12,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 6,
    "v_head_dim": 5,
    "n_routed_experts": 4,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "n_shared_experts": 1,
    "first_k_dense_replace": 1,
    "n_group": 1,
    "topk_group": 1,
}

# Per family, what differs from the common shape. The comment names what the family adds to the test.
FAMILIES: Mapping[str, dict[str, Any]] = MappingProxyType(
    {
        "qwen2": _COMMON,  # query, key and value biases
        "llama": _GROUPED,
        "mistral": {**_GROUPED, "sliding_window": 8},  # every layer slides
        "ministral": {**_GROUPED, "sliding_window": 8},
        "ministral3": {  # queries scaled by position
            **_GROUPED,
            "rope_parameters": {
                "rope_type": "yarn",
                "rope_theta": 1e4,
                "factor": 16.0,
                "original_max_position_embeddings": 8,
                "llama_4_scaling_beta": 0.1,
            },
        },
        "qwen3": _GROUPED,  # query and key norms
        "qwen3_moe": {**_GROUPED, **_EXPERTS},
        "mixtral": {**_GROUPED, "num_local_experts": 4, "num_experts_per_tok": 2},
        "phi": _PLAIN,  # partial rotation, one norm for both branches
        "phi3": {**_COMMON, "pad_token_id": 0},  # fused projections
        "gemma": _GROUPED,
        "gemma2": {  # capped scores, windows in every other layer
            **_GROUPED,
            "sliding_window": 8,
            "attn_logit_softcapping": 2.0,
            "query_pre_attn_scalar": 8,
        },
        "gemma3_text": {  # another base in sliding layers
            **_GROUPED,
            **_MIXED,
            "query_pre_attn_scalar": 8,
        },
        "olmo2": _COMMON,
        "olmo3": {**_COMMON, **_MIXED},
        "cohere": _COMMON,  # interleaved rotation
        "cohere2": {**_COMMON, **_MIXED},  # no rotation in full layers
        "granite": {**_COMMON, "attention_multiplier": 0.3},
        "glm4": {**_GROUPED, "partial_rotary_factor": 0.5},  # partial and interleaved
        "smollm3": {**_COMMON, "no_rope_layers": [1, 0, 1]},  # a layer without rotation
        "stablelm": _COMMON,
        "starcoder2": _COMMON,
        "gpt_oss": {  # sinks, experts
            **_GROUPED,
            "sliding_window": 8,
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0},
        },
        "gpt_neox": _PLAIN,  # fused projections, partial rotation, parallel branches
        "exaone4": {**_COMMON, "sliding_window": 8, "sliding_window_pattern": 2},
        "nemotron": _GROUPED,
        "helium": _GROUPED,
        "gpt2": {**_PLAIN, "n_positions": 128},  # learned positions
        "opt": {**_PLAIN, "ffn_dim": 64, "word_embed_proj_dim": 48},  # learned positions
        "llama4_text": {  # chunks, keys normalised after rotation, a softmax of the model's precision
            **_GROUPED,
            "intermediate_size_mlp": 64,
            "num_local_experts": 4,
            "num_experts_per_tok": 1,
            "attention_chunk_size": 8,
            "no_rope_layers": [1, 1, 0],
            "moe_layers": [1],
        },
        "deepseek_v2": _LATENT,  # keys and values made of latents, interleaved rotation at their end
        "deepseek_v3": {**_LATENT, "q_lora_rank": 16},  # a normalised query, halves rotated
        "qwen2_5_vl": {  # the text decoder of a multimodal model, its planes in three sections
            "text_config": {
                **_COMMON,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 1e4,
                    "mrope_section": [1, 1, 2],
                },
            },
            "vision_config": {
                "depth": 1,
                "hidden_size": 16,
                "num_heads": 2,
                "intermediate_size": 16,
                "out_hidden_size": 48,
                "fullatt_block_indexes": [0],
            },
            "image_token_id": 0,
            "video_token_id": 0,
            "vision_start_token_id": 1,
            "vision_end_token_id": 2,
        },
    }
)


def tiny_config(family: str, **changes: Any) -> Any:
    """The configuration of a tiny model, with any of its settings changed."""
    if family not in FAMILIES:
        raise ValueError(
            f"`family` must be one of {', '.join(FAMILIES)}; got {family!r}. "
            f"Families that are not listed have not been checked."
        )
    return AutoConfig.for_model(family, **{**FAMILIES[family], **changes})


def tiny_model(
    family: str, *, seed: int = 0, scale: float = 0.2, **changes: Any
) -> PreTrainedModel:
    """A tiny random model in float32 and evaluation mode; `changes` go to its configuration.

    Weights are redrawn at `scale`, ten times that of the usual initialisation, so that attention is
    not uniform and edits do something.
    """
    config = tiny_config(family, **changes)
    model = language_model_class(config).from_config(config, dtype=torch.float32)
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=draw) * scale
            # Vectors that start at one are norm weights: perturbed, not replaced.
            if parameter.ndim < 2 and bool((parameter == 1).all()):
                parameter.add_(noise)
            else:
                parameter.copy_(noise)
    return model.eval()
