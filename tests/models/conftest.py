"""Tiny models shared by the tests of native models, one thread each, and a tokenizer made on the spot."""

from collections.abc import Callable, Iterator
from functools import cache

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerFast

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
