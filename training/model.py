"""The untrained network, begun near the circuit that retrieval needs."""

import math
from typing import Any

import tokenizers
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from finite_calculus.tasks import synthetic as tasks
from training.settings import Settings


def build_model(settings: Settings, tokenizer: tokenizers.Tokenizer) -> Qwen2ForCausalLM:
    """The untrained network; biases of q, k and v as Qwen2 has them."""
    torch.manual_seed(settings.seed)
    config = Qwen2Config(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=settings.width,
        intermediate_size=settings.hidden,
        num_hidden_layers=settings.layers,
        num_attention_heads=settings.heads,
        num_key_value_heads=settings.groups,
        max_position_embeddings=settings.context,
        rope_parameters={"rope_type": "default", "rope_theta": settings.theta},
        initializer_range=settings.spread,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=2,
        pad_token_id=0,
    )
    model = Qwen2ForCausalLM(config)
    names = [f"{n:02d}" for n in range(100)] + list(tasks.CATEGORIES)
    prepare_heads(model, settings, [tokenizer.encode(name).ids[0] for name in names])
    return model


@torch.no_grad()
def prepare_heads(model: Qwen2ForCausalLM, settings: Settings, names: list[int]) -> None:
    """Start near the circuit that retrieval needs; random weights had not found it in 500 steps.

    First layer: pointers to fixed distances, by the q and k biases alone. Rotated biases give a score
    Σ c² cos θ(Δ − Δ0) whatever the tokens: with four fast planes, a peak at the distance Δ0. A label
    finds its name 2 tokens back and writes a code of it in one subspace; the answering token finds
    the asked name 4 (plain) or 9 (chat) back and writes the same code in another; tokens that
    are no names have no code. Second layer: in the slow planes, keys read the first subspace and
    queries the second. All of it is trained on.
    """
    width = settings.width // settings.heads
    half, fast = width // 2, torch.arange(4)
    speeds = settings.theta ** (-2.0 * fast / width)
    size = math.sqrt(settings.pointing * math.sqrt(width))
    layers: Any = model.model.layers
    first, second = layers[0].self_attn, layers[1].self_attn
    code = torch.linalg.qr(torch.randn(settings.width, width)).Q.T
    name_space, query_space = torch.linalg.qr(torch.randn(settings.width, 2 * width)).Q.split(
        width, dim=1
    )
    embedding = model.model.embed_tokens.weight
    others = torch.tensor([n for n in range(len(embedding)) if n not in set(names)])
    embedding[others] -= embedding[others] @ code.T @ code
    slow = torch.cat([torch.arange(len(fast), half), torch.arange(half + len(fast), width)])
    for group in range(settings.groups):
        first.k_proj.bias[group * width + fast] = size
        first.v_proj.weight[group * width : (group + 1) * width] = code
    for head, distance in enumerate(settings.distances):
        # A query at p scores a key at p − Δ by cos(angle + speed·Δ): the angle undoes the distance.
        first.q_proj.bias[head * width + fast] = size * torch.cos(-speeds * distance)
        first.q_proj.bias[head * width + half + fast] = size * torch.sin(-speeds * distance)
        if distance > 1:
            space = name_space if distance == 2 else query_space
            first.o_proj.weight[:, head * width : (head + 1) * width] = settings.written * space
    for group in range(settings.groups):
        match = settings.matching * torch.randn(len(slow), width)
        second.k_proj.weight[group * width + slow] = match @ name_space.T
        for head in range(settings.heads):
            if head * settings.groups // settings.heads == group:
                second.q_proj.weight[head * width + slow] = match @ query_space.T
