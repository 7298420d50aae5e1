"""llama2.c's format, converted: against its forward pass and its tokenizer, written out in numpy."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from finite_calculus.checkpoints import CheckpointError, llama2c
from tests.helpers.llama2c import SHAPE, WORDS, llama2c_tokens, pieces, tensors, written


def forward(w: dict[str, np.ndarray], ids: list[int]) -> np.ndarray:
    """run.c in float64: neighbouring entries are rotated, groups of heads share keys and values."""
    s, width = SHAPE, SHAPE.head_width
    w = {name: weight.astype(float) for name, weight in w.items()}

    def norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        return weight * x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)

    def rotated(x: np.ndarray) -> np.ndarray:
        angles = np.arange(len(ids))[:, None] / 10000.0 ** (np.arange(0, width, 2) / width)
        turn = np.exp(1j * angles)[:, None]
        z = (x[..., 0::2] + 1j * x[..., 1::2]) * turn
        return np.stack([z.real, z.imag], -1).reshape(x.shape)

    x = w["embedding"][ids]
    for layer in range(s.layers):
        h = norm(x, w["att_norm"][layer])
        q = rotated((h @ w["wq"][layer].T).reshape(len(ids), s.heads, width))
        k = rotated((h @ w["wk"][layer].T).reshape(len(ids), s.groups, width))
        v = (h @ w["wv"][layer].T).reshape(len(ids), s.groups, width)
        out = np.zeros_like(q)
        for head in range(s.heads):
            group = head // (s.heads // s.groups)
            scores = q[:, head] @ k[:, group].T / math.sqrt(width)
            scores[np.triu_indices(len(ids), 1)] = -np.inf
            probs = np.exp(scores - scores.max(-1, keepdims=True))
            out[:, head] = probs / probs.sum(-1, keepdims=True) @ v[:, group]
        x = x + out.reshape(len(ids), -1) @ w["wo"][layer].T
        h = norm(x, w["ffn_norm"][layer])
        gate = h @ w["w1"][layer].T
        x = x + (gate / (1 + np.exp(-gate)) * (h @ w["w3"][layer].T)) @ w["w2"][layer].T
    return norm(x, w["norm"]) @ w["embedding"].T


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, np.ndarray], Any, Any]:
    path = tmp_path_factory.mktemp("llama2c")
    weights = tensors(np.random.default_rng(3))
    llama2c.convert(written(path / "weights", weights), path / "model")
    model = AutoModelForCausalLM.from_pretrained(path / "model", attn_implementation="eager")
    return weights, model.double().eval(), AutoTokenizer.from_pretrained(path / "model")


def test_the_converted_model_computes_what_llama2c_computes(
    converted: tuple[dict[str, np.ndarray], Any, Any],
):
    weights, model, _ = converted
    ids = [1, 260, 3, 17, 261, 262, 99, 17, 5, 4, 200]
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([ids])).logits[0].numpy()
    expected = forward(weights, ids)
    # transformers keeps its rotary tables in float32, whatever the model's dtype: relative error
    # 2^-24 in each cosine, amplified by at most the scores' own size.
    scale = np.abs(expected).max()
    assert np.abs(logits - expected).max() / scale < 2**-24 * SHAPE.width * SHAPE.layers


@pytest.mark.parametrize("text", ["abc", "a b c", "abcc abc", "aé\nb", "", "  cc", "abab bcbc"])
def test_the_converted_tokenizer_merges_as_llama2c_does(
    text: str, converted: tuple[dict[str, np.ndarray], Any, Any]
):
    tokenizer = converted[2]
    vocabulary = {word: n + 259 for n, word in enumerate(WORDS)}
    scores = [score for _, score in pieces()]
    ids = tokenizer(text).input_ids
    # transformers adds no space before an empty text; llama2.c has no such case.
    assert ids == (llama2c_tokens(text, vocabulary, scores) if text else [1])
    assert tokenizer.decode(ids, skip_special_tokens=True) == text


def test_uninterleaving_pairs_neighbours_with_the_other_half():
    rows = np.arange(12)[:, None]
    assert llama2c.uninterleave(rows, 2).ravel().tolist() == [0, 2, 4, 1, 3, 5, 6, 8, 10, 7, 9, 11]


def test_a_file_without_the_header_is_refused(tmp_path: Path):
    (tmp_path / "weights").write_bytes(b"\0" * 64)
    with pytest.raises(CheckpointError, match=r"does not begin with a llama2\.c header: got Shape"):
        llama2c.convert(tmp_path / "weights", tmp_path / "model")


@pytest.mark.parametrize(
    ("kept", "message"),
    [(20, "too short for a llama2.c header: 20 bytes"), (2000, "is cut off or not of Shape")],
)
def test_a_file_that_is_cut_off_is_refused(kept: int, message: str, tmp_path: Path):
    path = written(tmp_path / "weights", tensors(np.random.default_rng(3)))
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match=message):
        llama2c.convert(path, tmp_path / "model")


@pytest.mark.parametrize(
    ("lost", "message"),
    [
        (1, r"piece \d+ must lie in the file; it is of \d+ bytes"),
        (40, r"does not end with a llama2\.c tokenizer"),
    ],
)
def test_a_file_without_the_end_of_its_tokenizer_is_refused(
    lost: int, message: str, tmp_path: Path
):
    path = written(tmp_path / "weights", tensors(np.random.default_rng(3)))
    path.write_bytes(path.read_bytes()[:-lost])
    with pytest.raises(CheckpointError, match=message):
        llama2c.convert(path, tmp_path / "model")
    assert not (tmp_path / "model").exists()
