"""Execution of counterfactuals that several queries see, in batches resumed at the edited layer.

The whole span of queries runs again; at the edited layer the reading queries attend to the edited bank of
their row, and the others to what was there. As with one query, the control of a row is the same row of an
unedited batch of the same size, and row 0 of every batch stays unedited.
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from finite_calculus.models.baseline import block_state, skipping
from finite_calculus.models.edits import Edit, Edits, as_counterfactuals, edited_bank
from finite_calculus.models.execute import attend_edited, batches, check_batch
from finite_calculus.models.kernels import Kernels
from finite_calculus.models.latent import in_rows
from finite_calculus.models.layer import LayerCapture
from finite_calculus.models.outcomes import Outcome
from finite_calculus.models.passage import Passage, readable
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.session import (
    AttentionCall,
    Session,
    active,
    by_module,
    keep_call,
)
from finite_calculus.models.support import Site
from finite_calculus.models.words import progress_bar, short_repr


@dataclass(frozen=True, eq=False)
class PassageOutcome:
    """One executed counterfactual: the objective beside its control, and the local outcome of each reader.

    `effect` = `value` − `control`; `drift` is that of the batch's unedited row. Each of `queries` says what
    the edited layer wrote at one reading query, as for a single one.
    """

    __repr__ = short_repr

    value: float
    control: float
    effect: float
    drift: float
    queries: tuple[Outcome, ...]


@dataclass(frozen=True, eq=False)
class _LayerRows:
    """One layer of an unedited batch at all its queries, row by row; see `baseline.LayerBaseline`."""

    state: Float[Tensor, "rows queries model"]
    others: int | None
    output: Float[Tensor, "rows queries heads value_width"]
    write: Float[Tensor, "rows queries model"]


@dataclass(frozen=True, eq=False)
class _BatchRows:
    """Logits and layers of an unedited batch of a passage."""

    logits: Float[Tensor, "rows queries vocabulary"]
    layers: tuple[_LayerRows, ...]


def execute_passage(
    prompt: PreparedPrompt,
    passage: Passage,
    edits: Sequence[Edits],
    *,
    batch: int = 16,
    quiet: bool = True,
) -> tuple[PassageOutcome, ...]:
    """Execute counterfactuals of a passage; `batch` counts rows with the control."""
    check_batch(batch)
    counterfactuals = as_counterfactuals(edits)
    for several in counterfactuals:
        readable(several)
    outcomes: dict[int, PassageOutcome] = {}
    total = len(counterfactuals)
    with progress_bar(total, quiet=quiet, title="execute", unit="edit") as progress:
        for layer, numbers, rows in batches(counterfactuals, batch):
            chunk = [counterfactuals[number] for number in numbers]
            results = _run_batch(prompt, passage, layer, chunk, rows)
            outcomes |= zip(numbers, results, strict=True)
            progress.update(len(chunk))
    return tuple(outcomes[number] for number in range(total))


def _run_batch(
    prompt: PreparedPrompt,
    passage: Passage,
    number: int,
    edits: Sequence[tuple[Edit, ...]],
    rows: int,
) -> list[PassageOutcome]:
    passage.queries(number)  # refuses a layer that was not captured
    captures = next(each for each in passage.layers if each[0].layer == number)
    site, unedited = prompt.sites[number], _unedited(prompt, rows)
    control = unedited.layers[number]
    places = [position - passage.start for position in passage.readers]
    own: list[tuple[LayerCapture, ...]] = []
    tensors: dict[str, Tensor] = {}
    kernels: list[Kernels | None] = []

    def observe(where: Site, call: AttentionCall, output: Tensor) -> Tensor:
        if where is not site:
            return output
        kernels.append(Kernels.of_call(site.projection, call))
        rows_of_edits = in_rows(site, captures, call, slice(1, len(edits) + 1))
        own.extend(passage.reading(each) for each in rows_of_edits)
        # Deletions have to leave each query something to attend to, so each one's bank is made.
        banks = [
            [edited_bank(query, several) for query in queries][-1]
            for queries, several in zip(own, edits, strict=True)
        ]
        edited = {row: (own[row - 1][-1], bank) for row, bank in enumerate(banks, start=1)}
        read = attend_edited(site, call, edited)
        output = output.clone()
        output[:, places] = read[:, places]
        heads = call.query.shape[1]
        tensors["output"] = output.reshape(rows, output.shape[1], heads, -1).cpu()
        return output

    def write(module: nn.Module, args: Any, output: Tensor) -> None:
        tensors["write"] = output.reshape(rows, -1, output.shape[-1]).cpu()

    with ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        stack.enter_context(skipping(prompt.sites[:number], unedited.layers))
        stack.enter_context(active(Session(by_module(prompt.sites), keep_call, observe)))
        stack.callback(site.projection.register_forward_hook(write).remove)
        logits = prompt.run_queries(rows=rows)
    values, controls = (
        _values(passage, each, unedited.logits).tolist() for each in (logits, unedited.logits)
    )
    return [
        PassageOutcome(
            value=values[row],
            control=controls[row],
            effect=values[row] - controls[row],
            drift=values[0] - controls[0],
            queries=tuple(
                Outcome(
                    margin=values[row],
                    control=controls[row],
                    effect=values[row] - controls[row],
                    drift=values[0] - controls[0],
                    output=tensors["output"][row, place],
                    control_output=control.output[row, place].cpu(),
                    write=tensors["write"][row, place],
                    control_write=control.write[row, place].cpu(),
                    layer=layer,
                    logits=None,
                    kernels=kernels[0],
                )
                for place, layer in zip(places, own[row - 1], strict=True)
            ),
        )
        for row in range(1, len(edits) + 1)
    ]


def _values(passage: Passage, logits: Tensor, baseline: Tensor) -> Tensor:
    """The objective of every row, in float64."""
    read = passage.objective.queries
    return passage.objective.of(logits[:, -read:].double(), baseline[:, -read:].double()).cpu()


def _unedited(prompt: PreparedPrompt, rows: int) -> _BatchRows:
    """The unedited batch of a passage, computed on first use and kept with its prefix."""
    baselines = prompt.prefix.baselines
    if rows not in baselines:
        baselines[rows] = _run_unedited(prompt, rows)
    return baselines[rows]


def _run_unedited(prompt: PreparedPrompt, rows: int) -> _BatchRows:
    fields: dict[int, dict[str, Any]] = {site.layer: {} for site in prompt.sites}

    def observe(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        new, heads = prompt.prefix.queries, call.query.shape[1]
        fields[site.layer] |= {
            "output": output.reshape(rows, new, heads, -1).clone(),
        }
        return output

    def hooks(own: dict[str, Any]) -> tuple[Any, Any]:
        def block(module: nn.Module, args: Any, output: Any) -> None:
            own["state"], own["others"] = block_state(output)

        def write(module: nn.Module, args: Any, output: Tensor) -> None:
            own["write"] = output.reshape(rows, -1, output.shape[-1]).clone()

        return block, write

    with ExitStack() as stack:
        for site in prompt.sites:
            block, write = hooks(fields[site.layer])
            stack.callback(site.block.register_forward_hook(block).remove)
            stack.callback(site.projection.register_forward_hook(write).remove)
        stack.enter_context(torch.no_grad())
        stack.enter_context(active(Session(by_module(prompt.sites), keep_call, observe)))
        logits = prompt.run_queries(rows=rows)
    layers = tuple(_LayerRows(**fields[site.layer]) for site in prompt.sites)
    return _BatchRows(logits, layers)
