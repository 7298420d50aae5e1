"""Tiny models shared by the tests of native models, one thread each, and a tokenizer made on the spot."""

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from finite_calculus.models.precision import cast_weights
from finite_calculus.models.tiny import tiny_model

WORDS = ["[UNK]", "the", "cat", "dog", "sat", "on", "a", "mat", "log", "red", "blue", "."]


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Matrices this small only wait for each other's threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def tiny() -> Callable[[str], PreTrainedModel]:
    """Tiny models by family, built once; tests leave them as they are."""
    return cache(tiny_model)


@pytest.fixture
def ids() -> Tensor:
    """A prompt of twenty tokens."""
    return torch.randint(3, 96, (20,), generator=torch.Generator().manual_seed(1))


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerFast:
    """One token per word, with character offsets."""
    inner = Tokenizer(WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="[UNK]"))
    inner.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=inner, unk_token="[UNK]")


@cache
def _bfloat16_fails() -> str:
    """Why bfloat16 products cannot be tried here: on some processors they end the process."""
    code = (
        "import torch; a = torch.ones(2, 4, 1, 16, dtype=torch.bfloat16);"
        "a @ a.mT; torch.nn.functional.linear(a, torch.ones(8, 16, dtype=torch.bfloat16))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    if done.returncode == 0:
        return ""
    return f"bfloat16 products end the process on this processor (exit code {done.returncode})"


@pytest.fixture(scope="session")
def half() -> Callable[..., PreTrainedModel]:
    """Tiny models by family and dtype; `upcast` for float32 with the weights of that dtype."""

    @cache
    def model(family: str, name: str, upcast: bool = False) -> PreTrainedModel:
        if name == "bfloat16" and _bfloat16_fails():
            pytest.skip(_bfloat16_fails())
        cast = cast_weights(tiny_model(family), getattr(torch, name))
        return cast_weights(cast, torch.float32) if upcast else cast

    return model
