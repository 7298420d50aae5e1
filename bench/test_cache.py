"""Cache decisions: planning within its seconds, and a decoding step with and without decisions along the way.

The first two rows have a clock as comparator: ten seconds, the time that a plan may take.
"""

import copy
from collections.abc import Iterator
from dataclasses import replace

import pytest
import torch
from transformers import DynamicCache

from finite_calculus.cache import Chooser, QueryWindow, WriteDistortion, evict, reducing, watch
from finite_calculus.checkpoints import available, load
from finite_calculus.models import Capture, attach

MODEL = "smollm2-135m-instruct"
LIMIT = 10.0


@pytest.fixture(scope="module")
def model():
    """The real checkpoint, which the bench does not fetch."""
    if not available(MODEL):
        pytest.skip(f"{MODEL} is not in the cache")
    return load(MODEL)[0]


@pytest.fixture(scope="module")
def captured(model) -> Iterator[Capture]:
    """774 tokens at all 30 layers."""
    with torch.inference_mode(False), attach(model) as instrument:
        yield instrument.capture(_ids(774), answer=5, versus=9)


def _ids(count: int) -> list[int]:
    draw = torch.Generator().manual_seed(0)
    return torch.randint(3, 49_000, (count,), generator=draw).tolist()


def _sleep_limit() -> None:
    import time

    time.sleep(LIMIT)


@pytest.mark.parametrize("budget", [0.01, 0.1])
def test_planning_774_tokens_in_30_layers(compare, captured, budget) -> None:
    compare(
        f"largest set within {budget:g} of ‖o‖, 774 tokens × 30 layers × 9 heads",
        lambda: evict(captured, budget, relative=True),
        _sleep_limit,
        named="ten seconds",
        target=1.0,
        rounds=1,
    )


def test_planning_32768_tokens_in_one_layer(compare) -> None:
    draw = torch.Generator().manual_seed(0)
    heads, groups, keys, width, model_width = 9, 3, 32_768, 64, 576

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=draw)

    window = QueryWindow(
        layer=0,
        tokens=torch.arange(keys).expand(groups, -1),
        queries=normal(1, heads, width) * 2,
        keys=normal(groups, keys, width),
        values=normal(groups, keys, width),
        attended=torch.ones(1, groups, keys, dtype=torch.bool),
        scaling=width**-0.5,
        softcap=None,
        sinks=None,
        output_projection=normal(heads, width, model_width) / 24,
        write_bias=None,
    )
    allowed = window.tokens < keys - 1
    compare(
        "largest set within 0.05 of ‖o‖, 32,768 tokens × 9 heads, one layer",
        lambda: Chooser(window, allowed).within(0.05),
        _sleep_limit,
        named="ten seconds",
        target=1.0,
        rounds=1,
    )


def test_deciding_again_costs_a_tenth_of_the_steps_between(compare, model) -> None:
    """16 of 248 entries of every layer, beside the 16 decoding steps that brought them."""
    ids, every = torch.tensor(_ids(248)), 16
    method = WriteDistortion(keep=len(ids) - every, every=every, shortlist=4.0)
    windows = watch(model, ids, queries=method.queries)
    filled = DynamicCache(config=model.config)
    model(input_ids=ids[None, :-every], past_key_values=filled, use_cache=True)

    def decode() -> None:
        cache = copy.deepcopy(filled)
        for token in ids[-every:]:
            model(input_ids=token[None, None], past_key_values=cache, use_cache=True)

    compare(
        "16 of 248 entries chosen again in 30 layers",
        lambda: method.plan([replace(window) for window in windows], len(ids)),
        decode,
        named="16 decoding steps",
        target=10.0,
        rounds=3,
    )


@pytest.mark.parametrize("tokens", [774, 4096])
def test_decoding_from_a_reduced_cache(compare, model, tokens) -> None:
    """64 tokens after a prompt: everything kept, and 30 % kept and decided again every 16 tokens."""
    ids = torch.tensor([_ids(tokens)])
    options = {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "do_sample": False,
        "min_new_tokens": 64,
        "max_new_tokens": 64,
        "pad_token_id": 0,
    }

    def generate(method: WriteDistortion) -> None:
        with reducing(model, method):
            model.generate(**options)

    compare(
        f"64 tokens after {tokens}, 30 % kept, decided again every 16",
        lambda: generate(WriteDistortion(keep=0.3, every=16, shortlist=4.0)),
        lambda: generate(WriteDistortion(keep=0.3, every=0)),
        named="30 % kept, decided once",
        rounds=2,
    )
    compare(
        f"prefill of {tokens} and 64 tokens, 30 % kept",
        lambda: generate(WriteDistortion(keep=0.3, every=0)),
        lambda: model.generate(**options),
        named="everything kept",
        rounds=2,
    )
