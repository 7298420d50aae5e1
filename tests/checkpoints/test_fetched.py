"""Pretrained checkpoints from registries, where they are in the cache: known sentences, known facts.

Nothing is fetched here. To run these, load the checkpoint once, for instance with
`python -c "from finite_calculus.checkpoints import load; load('stories15m')"`.
"""

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch

from finite_calculus.checkpoints import CheckpointError, available, checkpoint, load
from finite_calculus.checkpoints.status import packaged_directory
from tests.helpers.llama2c import llama2c_tokens


def cached(name: str) -> Any:
    """Run only if the checkpoint is here."""
    reason = f"{name} is not in the cache; load it once with a network"
    return pytest.mark.skipif(not available(name), reason=reason)


def loaded(name: str) -> tuple[Any, Any]:
    """Model and tokenizer, whose methods transformers types too widely to be of use."""
    return load(name)


def continued(name: str, text: str, tokens: int, *, as_chat: bool) -> str:
    """Greedy decoding: what follows the prompt."""
    model, tokenizer = loaded(name)
    if as_chat:
        message = [{"role": "user", "content": text}]
        text = tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)
    ids = tokenizer(text, return_tensors="pt", add_special_tokens=not as_chat).input_ids
    mask = torch.ones_like(ids)
    out = model.generate(ids, attention_mask=mask, max_new_tokens=tokens, do_sample=False)
    return tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True)


@cached("stories15m")
def test_stories15m_tells_the_story_that_llama2c_tells_at_temperature_zero():
    told = continued("stories15m", "Once upon a time", 40, as_chat=False)
    assert told.startswith(
        ", there was a little girl named Lily. She loved to play outside in the sunshine. "
        "One day, she saw a big, red ball in the sky."
    )


@cached("stories15m")
@pytest.mark.parametrize("text", ["Lily saw a dog.", "Once upon a time, naïve 17", "a b\nc"])
def test_stories15m_tokenises_as_llama2c_does(text: str):
    _, tokenizer = load("stories15m")
    vocabulary = {piece: n for piece, n in tokenizer.get_vocab().items() if n > 258}
    # Scores of SentencePiece BPE are minus the rank, which is the order of ids, except that runs of
    # spaces come last; none is in these texts.
    assert tokenizer(text).input_ids == llama2c_tokens(
        text, vocabulary, [-float(n) for n in range(32000)]
    )


@cached("smollm2-135m-instruct")
def test_smollm2_knows_the_capital_of_france():
    told = continued("smollm2-135m-instruct", "What is the capital of France?", 12, as_chat=True)
    assert "Paris" in told


@cached("tinyllama-1.1b")
def test_tinyllama_answers_in_english():
    told = continued("tinyllama-1.1b", "What is the capital of France?", 12, as_chat=True)
    assert "Paris" in told


@cached("stories15m")
def test_a_tampered_copy_is_refused_on_loading(tmp_path: Path):
    known = checkpoint("stories15m")
    copy = packaged_directory(known, tmp_path)
    shutil.copytree(packaged_directory(known, None), copy)
    load("stories15m", cache=tmp_path)
    with (copy / "model.safetensors").open("r+b") as file:
        file.seek(-1, 2)
        last = file.read(1)[0]
        file.seek(-1, 2)
        file.write(bytes([last ^ 1]))
    with pytest.raises(CheckpointError, match=r"model\.safetensors has sha256 .*Remove"):
        load("stories15m", cache=tmp_path)
