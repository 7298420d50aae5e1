"""Tiny random models of a known family, always available: for tests of the machinery, not of meaning.

Every parameter is drawn, biases and norms too: transformers leaves biases at zero and norms at one,
where a mistake about either would not show.
"""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Qwen2Config, Qwen2ForCausalLM

from finite_calculus.checkpoints.registry import Architecture

_FAMILIES = {"qwen2": (Qwen2Config, Qwen2ForCausalLM), "llama": (LlamaConfig, LlamaForCausalLM)}


def build(architecture: Architecture, seed: int, vocabulary: int) -> torch.nn.Module:
    """A model with weights from `seed`; the global random state is left as it was."""
    configure, model_class = _FAMILIES[architecture.family]
    width = architecture.heads * architecture.head_width
    config = configure(
        vocab_size=vocabulary,
        hidden_size=width,
        intermediate_size=2 * width,
        num_hidden_layers=architecture.layers,
        num_attention_heads=architecture.heads,
        num_key_value_heads=architecture.groups,
        max_position_embeddings=architecture.context,
        rope_parameters={"rope_type": "default", "rope_theta": architecture.theta},
        tie_word_embeddings=False,
        attn_implementation="eager",
    )
    with torch.random.fork_rng(devices=[]):
        model = model_class(config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            drawn = torch.randn(parameter.shape, generator=generator)
            if "norm" in name:
                parameter.copy_(1 + 0.1 * drawn)
            else:
                parameter.copy_(
                    drawn if parameter.dim() == 1 else drawn / parameter.shape[1] ** 0.5
                )
    return model
