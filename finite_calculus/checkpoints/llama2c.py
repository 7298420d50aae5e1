"""Convert llama2.c's own format to a transformers Llama: seven integers, then float32 tensors in order.

llama2.c rotates neighbouring entries of a head, transformers entry i with entry i + width/2; the rows
of q and k are reordered accordingly, which changes no score. The tokenizer follows the weights in the
packaged file: SentencePiece scores, from which the merges are recovered as transformers does it.
"""

import struct
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from tokenizers import AddedToken, Tokenizer, decoders, normalizers, processors
from tokenizers.models import BPE
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from finite_calculus.checkpoints.errors import CheckpointError

_HEADER = struct.Struct("<7i")
_BYTES = range(3, 259)


@dataclass(frozen=True)
class Shape:
    """The header; a negative vocabulary in the file means a head of its own, which is not read here."""

    width: int
    hidden: int
    layers: int
    heads: int
    groups: int
    vocabulary: int
    context: int

    @property
    def head_width(self) -> int:
        return self.width // self.heads


def convert(source: Path, target: Path) -> None:
    """Write model and tokenizer to `target` as safetensors and JSON."""
    data = source.read_bytes()
    if len(data) < _HEADER.size:
        raise CheckpointError(
            f"{source.name} is too short for a llama2.c header: {len(data)} bytes."
        )
    shape = Shape(*_HEADER.unpack_from(data))
    if min(shape.__dict__.values()) < 1 or shape.width % shape.heads or shape.heads % shape.groups:
        raise CheckpointError(f"{source.name} does not begin with a llama2.c header: got {shape}.")
    try:
        tensors, end = _tensors(data, shape)
    except (ValueError, OverflowError) as error:  # of numpy, where the file ends before its weights
        raise CheckpointError(f"{source.name} is cut off or not of {shape}: {error}.") from error
    try:
        tokenizer = _tokenizer(data[end:], shape)
    except Exception as error:  # of struct and of tokenizers, about pieces that may be anything
        raise CheckpointError(
            f"{source.name} does not end with a llama2.c tokenizer of {shape.vocabulary} pieces: "
            f"{str(error)[:200]!r}."
        ) from error
    model = _model(shape)
    model.load_state_dict(tensors, strict=True)
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


def uninterleave(rows: np.ndarray, heads: int) -> np.ndarray:
    """Rows (2i, 2i+1) of each head become rows (i, i + width/2)."""
    paired = rows.reshape(heads, -1, 2, rows.shape[-1])
    return paired.transpose(0, 2, 1, 3).reshape(rows.shape)


def _tensors(data: bytes, shape: Shape) -> tuple[dict[str, torch.Tensor], int]:
    """The state of the transformers model, and where the weights end."""
    at = _HEADER.size

    def take(*dims: int) -> np.ndarray:
        nonlocal at
        tensor = np.frombuffer(data, "<f4", int(np.prod(dims)), at).reshape(dims)
        at += tensor.nbytes
        return tensor

    n, d, h = shape.layers, shape.width, shape.hidden
    grouped = shape.groups * shape.head_width
    embedding = take(shape.vocabulary, d)
    layered = {
        "input_layernorm": take(n, d),
        "self_attn.q_proj": take(n, d, d),
        "self_attn.k_proj": take(n, grouped, d),
        "self_attn.v_proj": take(n, grouped, d),
        "self_attn.o_proj": take(n, d, d),
        "post_attention_layernorm": take(n, d),
        "mlp.gate_proj": take(n, h, d),
        "mlp.down_proj": take(n, d, h),
        "mlp.up_proj": take(n, h, d),
    }
    state = {"model.embed_tokens.weight": embedding, "model.norm.weight": take(d)}
    state["lm_head.weight"] = embedding
    take(2, shape.context, shape.head_width // 2)  # cosines and sines, which transformers computes
    for name, stack in layered.items():
        for layer, weight in enumerate(stack):
            if name.endswith("q_proj"):
                weight = uninterleave(weight, shape.heads)
            if name.endswith("k_proj"):
                weight = uninterleave(weight, shape.groups)
            state[f"model.layers.{layer}.{name}.weight"] = weight
    return {name: torch.from_numpy(weight.copy()) for name, weight in state.items()}, at


def _model(shape: Shape) -> LlamaForCausalLM:
    config = LlamaConfig(
        vocab_size=shape.vocabulary,
        hidden_size=shape.width,
        intermediate_size=shape.hidden,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.groups,
        max_position_embeddings=shape.context,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 1e4},
        tie_word_embeddings=True,
        bos_token_id=1,
        eos_token_id=2,
    )
    with torch.random.fork_rng(devices=[]):
        return LlamaForCausalLM(config)


def _tokenizer(data: bytes, shape: Shape) -> PreTrainedTokenizerFast:
    """Llama's tokenizer: byte fallback, a prefixed space, <s> in front."""
    pieces, scores = _pieces(data, shape.vocabulary)
    vocabulary = {piece: n for n, piece in enumerate(pieces)}
    merges = _merges(vocabulary, scores)
    tokenizer = Tokenizer(
        BPE(vocab=vocabulary, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)]
    )
    special = [AddedToken(text, special=True, normalized=False) for text in pieces[:3]]
    tokenizer.add_special_tokens(special)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token="<s>",
        eos_token="</s>",
        unk_token="<unk>",
        clean_up_tokenization_spaces=False,
        model_max_length=shape.context,
    )


def _pieces(data: bytes, count: int) -> tuple[list[str], list[float]]:
    """Pieces with SentencePiece's mark for spaces, which llama2.c writes as plain spaces."""
    pieces, scores, at = [], [], 4
    for n in range(count):
        score, length = struct.unpack_from("<fi", data, at)
        if not 0 <= length <= len(data) - at - 8:
            raise ValueError(f"piece {n} must lie in the file; it is of {length} bytes")
        text = data[at + 8 : at + 8 + length]
        at += 8 + length
        scores.append(score)
        pieces.append(f"<0x{n - 3:02X}>" if n in _BYTES else text.decode().replace(" ", "▁"))
    pieces[:3] = ["<unk>", "<s>", "</s>"]
    return pieces, scores


def _merges(vocabulary: dict[str, int], scores: list[float]) -> list[tuple[str, str]]:
    """All splits of each piece into two pieces, pieces in the order of their scores."""
    merges = []
    for piece, n in sorted(vocabulary.items(), key=lambda item: -scores[item[1]]):
        if n in _BYTES or n < 3:
            continue
        splits = [(piece[:cut], piece[cut:]) for cut in range(1, len(piece))]
        known = [split for split in splits if split[0] in vocabulary and split[1] in vocabulary]
        merges += sorted(known, key=lambda split: (vocabulary[split[0]], vocabulary[split[1]]))
    return merges
