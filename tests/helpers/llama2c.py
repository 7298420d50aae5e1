"""llama2.c's tokenizer, written out again, and a small file of its format."""

import itertools
import struct
from pathlib import Path

import numpy as np

from finite_calculus.checkpoints import llama2c

SHAPE = llama2c.Shape(24, 40, 2, 4, 2, 270, 32)
WORDS = ["▁", "a", "b", "c", "ab", "▁ab", "bc", "▁a", "abc", "▁abc", "cc"]


def llama2c_tokens(text: str, vocabulary: dict[str, int], scores: list[float]) -> list[int]:
    """run.c's bpe_encode: bytes for unknown characters, then always the best-scored pair."""
    parts: list[int] = []
    for character in "▁" + text.replace(" ", "▁"):
        token = vocabulary.get(character)
        parts += [token] if token is not None else [byte + 3 for byte in character.encode()]
    names = {n: piece for piece, n in vocabulary.items()}
    while True:
        pairs = [names.get(a, "?") + names.get(b, "?") for a, b in itertools.pairwise(parts)]
        ranked = [(-scores[vocabulary[p]], n) for n, p in enumerate(pairs) if p in vocabulary]
        if not ranked:
            return [1, *parts]
        place = min(ranked)[1]
        parts[place : place + 2] = [vocabulary[pairs[place]]]


def tensors(rng: np.random.Generator) -> dict[str, np.ndarray]:
    """The file's tensors in its own order, with llama2.c's names."""
    s, n = SHAPE, SHAPE.layers
    grouped = s.groups * s.head_width
    dims = {
        "embedding": (s.vocabulary, s.width),
        "att_norm": (n, s.width),
        "wq": (n, s.width, s.width),
        "wk": (n, grouped, s.width),
        "wv": (n, grouped, s.width),
        "wo": (n, s.width, s.width),
        "ffn_norm": (n, s.width),
        "w1": (n, s.hidden, s.width),
        "w2": (n, s.width, s.hidden),
        "w3": (n, s.hidden, s.width),
        "norm": (s.width,),
        "cosines and sines": (2, s.context, s.head_width // 2),
    }
    return {name: rng.normal(0, 0.4, size).astype("<f4") for name, size in dims.items()}


def pieces() -> list[tuple[bytes, float]]:
    """As llama2.c's exporter writes them: bytes at 3 to 258, spaces plain, scores falling."""
    special = [(b"<unk>", 0.0), (b"\n<s>\n", 0.0), (b"\n</s>\n", 0.0)]
    spelled = [(bytes([n]), 0.0) for n in range(256)]
    words = [(word.replace("▁", " ").encode(), -float(n)) for n, word in enumerate(WORDS)]
    return special + spelled + words


def written(path: Path, weights: dict[str, np.ndarray]) -> Path:
    """The file of these tensors."""
    s = SHAPE
    data = struct.pack(
        "<7i", s.width, s.hidden, s.layers, s.heads, s.groups, s.vocabulary, s.context
    )
    data += b"".join(weight.tobytes() for weight in weights.values()) + struct.pack("<i", 8)
    for text, score in pieces():
        data += struct.pack("<fi", score, len(text)) + text
    path.write_bytes(data)
    return path
