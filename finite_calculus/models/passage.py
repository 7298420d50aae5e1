"""A passage: the last queries of a run, captured with one graph, when an edit is seen by several of them.

Each query of each layer has a capture of its own, exact as that of a single query; keys and values are one
tensor for all of them. One backward pass gives the gradient of the objective at every write, with all that
later queries make of it, so that the first order is the sum of the queries' own: Σ_i ⟨g_i, Δo_i⟩.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.models.capture import attended_keys, check_replay, layer_capture
from finite_calculus.models.edits import Edits, QueryEdit, as_tuple
from finite_calculus.models.layer import LayerCapture, stored_copy
from finite_calculus.models.objectives import Objective
from finite_calculus.models.predict import Prediction, predict
from finite_calculus.models.probe import ProbedRotary
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.recorder import Recorder, recording
from finite_calculus.models.session import Session, active, by_module, keep_call
from finite_calculus.models.smoothness import require_digits
from finite_calculus.models.support import require_finite_run
from finite_calculus.models.words import short_repr


@dataclass(frozen=True, eq=False)
class PassagePrediction:
    """The exact local responses of the queries that see an edit, and the effect that they predict.

    `effect` is Σ_i ⟨g_i, Δo_i⟩, to first order downstream.
    """

    __repr__ = short_repr

    layer: int
    queries: tuple[Prediction, ...]
    effect: float

    @property
    def writes(self) -> Float[Tensor, "queries model"]:
        """Δo of every query, exact."""
        return torch.stack([query.write for query in self.queries])


@dataclass(frozen=True, eq=False)
class Passage:
    """A baseline of several queries: the ids that ran, who reads edits, and captures by layer and query.

    `start` is the position of the first query that ran with a graph, `readers` those that see edits.
    `layers` holds, for every captured layer, the capture of each query from `start` on. `logits` are those
    that the objective reads, and `baseline` is its value.
    """

    __repr__ = short_repr

    model: str
    ids: Int[Tensor, " tokens"]
    start: int
    readers: range
    objective: Objective
    baseline: float
    logits: Float[Tensor, "read vocabulary"]
    layers: tuple[tuple[LayerCapture, ...], ...]

    @property
    def numbers(self) -> list[int]:
        """The captured layers by their indices in the model."""
        return [captures[0].layer for captures in self.layers]

    def queries(self, layer: int) -> tuple[LayerCapture, ...]:
        """The captures of a layer at the queries that see edits."""
        for captures in self.layers:
            if captures[0].layer == layer:
                return self.reading(captures)
        raise ValueError(
            f"`layer` must be one of the passage's layers {self.numbers}; got {layer}. "
            f"Name it in `layers` when capturing the passage."
        )

    def reading(self, captures: Sequence[LayerCapture]) -> tuple[LayerCapture, ...]:
        """Of the captures of a layer, those of the queries that see edits."""
        return tuple(captures[position - self.start] for position in self.readers)

    def predict(self, edits: Edits) -> PassagePrediction:
        """Predict one counterfactual without the model: every reading query exactly, their sum downstream."""
        several = readable(edits)
        layer = several[0].layer
        parts = tuple(predict(query, several) for query in self.queries(layer))
        return PassagePrediction(layer, parts, sum(part.effect for part in parts))


def readable(edits: Edits) -> tuple:
    """A counterfactual that several queries can see; an edit of a query is none."""
    several = as_tuple(edits)
    if any(isinstance(edit, QueryEdit) for edit in several):
        raise ValueError(
            "`edits` of a passage must be of keys, values and scores, which all its queries read; got a "
            "QueryEdit. Capture the one query that it is for."
        )
    return several


def take_passage(
    prompt: PreparedPrompt,
    probed: Sequence[ProbedRotary],
    objective: Objective,
    readers: range,
    layers: Sequence[int],
) -> Passage:
    """Run the last queries of a prepared prompt with a graph and collect the requested layers."""
    sites, prefix = prompt.sites, prompt.prefix
    tokens, count = prefix.ids.shape[0], prefix.queries
    recorder = Recorder(frozenset(layers))
    session = Session(by_module(sites), keep_call, recorder.observe)
    with torch.enable_grad(), active(session), recording(sites, recorder):
        logits = prompt.run_queries()[0, -objective.queries :]
        require_finite_run(prompt.model, "logits", logits)
        value = objective.of(logits.double(), logits.detach().double())
        names = list(recorder.leaves)
        slopes = torch.autograd.grad(value, [recorder.leaves[name] for name in names])
    gradients = dict(zip(names, slopes, strict=True))
    captures = []
    with torch.no_grad():
        for number in layers:
            last = layer_capture(sites[number], probed[number], recorder, gradients, tokens)
            last = replace(last, **_NO_QUERY_MAP)
            captures.append(
                tuple(_at_query(last, recorder, gradients, i, count) for i in range(count))
            )
            for capture in captures[-1]:
                check_replay(capture)
    return Passage(
        model=type(prompt.model).__name__,
        ids=prefix.ids.cpu(),
        start=tokens - count,
        readers=readers,
        objective=objective,
        baseline=float(value.detach()),
        logits=stored_copy(logits),
        layers=tuple(captures),
    )


_NO_QUERY_MAP = {
    "head_input": None,
    "query_weight": None,
    "query_bias": None,
    "not_affine": "it is one of several queries of a passage",
    "residual": None,
}


def _at_query(
    last: LayerCapture,
    recorder: Recorder,
    gradients: dict[tuple[str, int], Tensor],
    query: int,
    count: int,
) -> LayerCapture:
    """The capture of another query of the same run; keys and values are those of the last one."""
    call, number = recorder.calls[last.layer], last.layer
    width = last.write.shape[0]
    return replace(
        last,
        position=last.position - count + 1 + query,
        query=stored_copy(call.query[0, :, query]),
        attended=attended_keys(call, last.keys.shape[1], query),
        output=stored_copy(recorder.outputs[number][0, query]).reshape(last.heads, -1),
        write=stored_copy(recorder.writes[number].reshape(-1, width)[query]),
        gradient_output=stored_copy(gradients["output", number][0, query]).reshape(last.heads, -1),
        gradient_write=stored_copy(gradients["write", number].reshape(-1, width)[query]),
    )


def second_order(prompt: PreparedPrompt, passage: Passage, prediction: PassagePrediction) -> float:
    """½ Δoᵀ H Δo along a predicted write, H being the Hessian of the objective at the layer's writes.

    One more pass with a graph and two backward passes through it, for one prediction.
    """
    require_digits(prompt.model)
    layer = prediction.layer
    recorder = Recorder(frozenset([layer]))
    session = Session(by_module(prompt.sites), keep_call, recorder.observe)
    with torch.enable_grad(), active(session), recording(prompt.sites, recorder):
        logits = prompt.run_queries()[0, -passage.objective.queries :]
        value = passage.objective.of(logits.double(), logits.detach().double())
        leaf = recorder.leaves["write", layer]
        (slope,) = torch.autograd.grad(value, leaf, create_graph=True)
        along = torch.zeros_like(leaf)
        places = [position - passage.start for position in passage.readers]
        along.view(-1, leaf.shape[-1])[places] = prediction.writes.to(along)
        (bent,) = torch.autograd.grad((slope * along).sum(), leaf)
    return 0.5 * float((bent.double() * along.double()).sum())
