"""Continuations of one prefix, run natively in a batch: what one layer did at each of them."""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from finite_calculus.models import Instrument, LayerCapture
from finite_calculus.models.kernels import Kernels
from finite_calculus.models.projections import query_projection
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.session import AttentionCall, Session, active, by_module, keep_call
from finite_calculus.models.support import Site
from finite_calculus.tasks.articles import ArticlePrefix


@dataclass(frozen=True, eq=False)
class Continuation:
    """One token after the prefix, as its row of a batch computed it; `kernels` are those of the batch.

    `same_bank` says that the row read the very keys and values of the captured prefix.
    """

    token: int
    layer: LayerCapture
    kernels: Kernels | None
    same_bank: bool


def best_tokens(instrument: Instrument, prefix: ArticlePrefix, count: int) -> list[int]:
    """The observed token, then the best others: none special, none beyond the vocabulary."""
    device = next(instrument.model.parameters()).device
    ids = torch.tensor([prefix.ids], device=device)
    with torch.no_grad():
        logits = instrument.model(input_ids=ids, use_cache=False, logits_to_keep=1).logits[0, -1]
    tokenizer = instrument.tokenizer
    special = {*tokenizer.all_special_ids, *_added_special(tokenizer), prefix.observed}
    ranked = [
        token
        for token in logits.double().argsort(descending=True, stable=True).tolist()
        if token not in special and token < len(tokenizer)
    ]
    if len(ranked) < count - 1:
        raise ValueError(
            f"`continuations` must not exceed the {len(ranked) + 1} ordinary tokens of the model; got "
            f"{count}."
        )
    return [prefix.observed, *ranked[: count - 1]]


def continue_prefix(
    instrument: Instrument, prefix: ArticlePrefix, tokens: Sequence[int], number: int, batch: int
) -> list[Continuation]:
    """Every token after the same prefix at one layer; `batch` rows run at once."""
    ids = [*prefix.ids, tokens[0]]
    capture = instrument.capture(ids, answer=tokens[0], versus=tokens[1], layers=[number])
    layer = capture.layer(number)
    layer.query_map()  # refuses a layer without one
    prompt = instrument.prompt(capture.ids)
    return [
        continuation
        for start in range(0, len(tokens), batch)
        for continuation in _run(prompt, layer, tokens[start : start + batch])
    ]


def _run(prompt: PreparedPrompt, layer: LayerCapture, tokens: Sequence[int]) -> list[Continuation]:
    site = prompt.sites[layer.layer]
    calls: dict[str, Any] = {}

    def observe(where: Site, call: AttentionCall, output: Tensor) -> Tensor:
        if where is site:
            calls["call"], calls["output"] = call, output
        return output

    def keep_input(module: nn.Module, args: Any) -> None:
        calls["input"] = args[0]

    def keep_write(module: nn.Module, args: Any, output: Tensor) -> None:
        calls["write"] = output

    projection = query_projection(site.module)
    if projection is None:
        raise ValueError(f"Layer {layer.layer} must have a plain query projection; it has none.")
    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.callback(projection.register_forward_pre_hook(keep_input).remove)
        stack.callback(site.projection.register_forward_hook(keep_write).remove)
        stack.enter_context(active(Session(by_module(prompt.sites), keep_call, observe)))
        device = next(prompt.model.parameters()).device
        ids = torch.tensor(tokens, device=device).unsqueeze(-1)
        prompt.model(input_ids=ids, past_key_values=prompt.prefix.cache(), use_cache=True)
    call: AttentionCall = calls["call"]
    kernels = Kernels.of_call(site.projection, call)
    rows = {
        name: calls[name].reshape(len(tokens), -1).cpu() for name in ("output", "input", "write")
    }
    return [
        Continuation(token, _layer(layer, call, rows, row), kernels, _same_bank(layer, call, row))
        for row, token in enumerate(tokens)
    ]


def _layer(
    layer: LayerCapture, call: AttentionCall, rows: dict[str, Tensor], row: int
) -> LayerCapture:
    own = layer.with_last_tokens(
        call.query[row, :, -1].cpu(), call.key[row, :, -1:].cpu(), call.value[row, :, -1:].cpu()
    )
    return replace(
        own,
        head_input=rows["input"][row].clone(),
        output=rows["output"][row].reshape(layer.heads, -1).clone(),
        write=rows["write"][row].clone(),
    )


def _same_bank(layer: LayerCapture, call: AttentionCall, row: int) -> bool:
    held = ((call.key, layer.keys), (call.value, layer.values))
    return all(torch.equal(seen[row, :, :-1].cpu(), kept[:, :-1]) for seen, kept in held)


def _added_special(tokenizer: Any) -> list[int]:
    """Special tokens that a tokenizer was given beside its usual ones, such as those of a chat."""
    added = getattr(tokenizer, "added_tokens_decoder", {})
    return [number for number, token in added.items() if getattr(token, "special", False)]
