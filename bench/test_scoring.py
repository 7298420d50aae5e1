"""Scoring beside dense recomputation, and a whole search beside one forward and backward pass.

Both sides work in float64 from the same capture. One candidate at a time is timed on a sample.
"""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

from bench.scoring import DenseLayer, place
from finite_calculus.checkpoints import available, load
from finite_calculus.models import Instrument, attach
from finite_calculus.models.curvature import take_curvature
from finite_calculus.search import TOKEN_KINDS, prepare_search, score
from finite_calculus.tasks.synthetic import retrieval_pair

MODEL = "smollm2-135m-instruct"
SAMPLE = 200


@pytest.fixture(scope="module")
def prompted_model() -> Iterator[tuple[Instrument, dict[str, Any]]]:
    """The model attached, and the arguments of its capture: a prompt of 115 tokens."""
    if not available(MODEL):
        pytest.skip(f"{MODEL} is not in the cache")
    model, tokenizer = load(MODEL)
    messages = [{"role": "user", "content": retrieval_pair(0)[0].text}]
    text = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    with attach(model, tokenizer=tokenizer) as instrument:
        yield instrument, {"prompt": text, "answer": "A", "versus": "B"}


@pytest.fixture(scope="module")
def captured(prompted_model):
    """One capture of all layers, with gradients, whatever mode the bench runs in."""
    instrument, arguments = prompted_model
    with torch.inference_mode(False):
        return instrument.capture(**arguments)


@pytest.fixture(scope="module")
def rivals(captured):
    """The prepared search, its dense rival, and a sample of candidates that both agree on."""
    prepared = prepare_search(captured)
    table = prepared.score()
    dense = [DenseLayer(layer) for layer in captured.layers]
    sample = torch.randperm(len(table), generator=torch.Generator().manual_seed(0))[:SAMPLE]
    places = [place(captured, table, int(index)) for index in sample]

    def one_at_a_time() -> torch.Tensor:
        return torch.stack([dense[layer].effect(kind, column) for layer, kind, column in places])

    assert float((one_at_a_time() - table.effect[sample]).abs().max()) < 1e-9
    return prepared, dense, one_at_a_time


def test_scoring_beside_one_candidate_at_a_time(compare, rivals) -> None:
    prepared, _, one_at_a_time = rivals
    compare(
        f"scoring {len(prepared)} candidates, prepared, each",
        prepared.score,
        one_at_a_time,
        named="dense, one at a time",
        target=2000,
        items=(len(prepared), SAMPLE),
    )


def test_preparation_and_scoring_beside_one_candidate_at_a_time(compare, rivals) -> None:
    prepared, _, one_at_a_time = rivals
    compare(
        f"scoring {len(prepared)} candidates, preparation charged, each",
        lambda: score(prepared.capture),
        one_at_a_time,
        named="dense, one at a time",
        items=(len(prepared), SAMPLE),
    )


def test_scoring_beside_batches_of_candidates(compare, rivals) -> None:
    prepared, dense, _ = rivals
    compare(
        f"scoring {len(prepared)} candidates, prepared",
        prepared.score,
        lambda: [layer.effects(kind) for layer in dense for kind in TOKEN_KINDS],
        named="dense, batched by layer and kind",
        rounds=2,
    )


def test_a_whole_search_beside_one_forward_and_backward(compare, prompted_model) -> None:
    instrument, arguments = prompted_model
    model, ids = (
        instrument.model,
        torch.tensor([instrument.tokenizer(arguments["prompt"])["input_ids"]]),
    )
    embed = model.get_input_embeddings()
    with torch.inference_mode(False):
        margin = instrument.capture(**arguments).margin

    def search() -> None:
        with torch.inference_mode(False):
            instrument.forget()
            score(instrument.capture(**arguments)).topk(20)

    def full() -> None:
        with torch.inference_mode(False):
            inputs = embed(ids.clone()).detach().requires_grad_(True)
            logits = model(inputs_embeds=inputs, use_cache=False, logits_to_keep=1).logits[0, -1]
            torch.autograd.grad(margin.of(logits), inputs)

    compare(
        "whole search: prefix, one backward, all candidates scored and ranked",
        search,
        full,
        named="full forward and backward",
        target=1 / 1.5,
    )


@pytest.mark.parametrize(("directions", "times"), [(8, 3), (16, 5)])
def test_a_whole_search_to_second_order_beside_the_first(
    compare, prompted_model, directions: int, times: int
) -> None:
    instrument, arguments = prompted_model

    def search(curvature: int) -> None:
        with torch.inference_mode(False):
            instrument.forget()
            score(instrument.capture(**arguments, curvature=curvature)).topk(20)

    compare(
        f"whole search to second order, {directions} directions of each layer",
        lambda: search(directions),
        lambda: search(0),
        named="to first order",
        target=1 / times,
    )


@pytest.mark.parametrize("directions", [8, 16])
def test_the_second_order_beside_the_bound_of_its_matrix_products(
    compare, prompted_model, captured, directions: int
) -> None:
    instrument, _ = prompted_model
    prompt = instrument.prompt(captured.ids)
    products = _products_of(instrument, directions)

    def bound() -> None:
        for weight, rows in products:
            torch.nn.functional.linear(rows, weight)
            torch.mm(rows.new_zeros(len(rows), len(weight)), weight)

    def second() -> None:
        with torch.inference_mode(False):
            take_curvature(prompt, captured.margin, captured.layers, directions)

    compare(
        f"curvature alone, {directions} directions of each of {len(captured.layers)} layers",
        second,
        bound,
        named="its matrix products",
    )


def _products_of(instrument: Instrument, directions: int) -> list[tuple[Any, Any]]:
    """Weights of every layer beside the rows of directions that start at or below it.

    Forward and backward derivative each multiply once by every weight above the direction's layer.
    """
    products = []
    for site in instrument.support.sites:
        rows = (site.layer + 1) * directions
        for module in site.block.modules():
            if isinstance(module, torch.nn.Linear):
                products.append((module.weight.detach(), torch.ones(rows, module.in_features)))
    return products
