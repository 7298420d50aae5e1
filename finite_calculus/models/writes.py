"""The exact writes Δo of single-token edits as vectors, all tokens of a layer at once.

In head h an edit of the scores moves y by β p(v − c), with c the mean of all other keys and
β = rest·expm1(d)/(rest + p e^d), which is −1 for a deletion (eq:singlerepair). The vectors W_h p(v − c) do
not depend on the strength, so they are projected once and all kinds are one product of small matrices.
Coefficients are formed in float64, vectors in float32: enough for directions and for second-order terms;
predicted effects come from `predict` and the search. An edit of the values alone moves y by p ε.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.models.edits import Edit, edited_bank
from finite_calculus.models.layer import LayerCapture, repeat_groups
from finite_calculus.models.predict import increments
from finite_calculus.models.words import short_repr
from finite_calculus.singles import PreparedSingles, prepare_singles
from finite_calculus.sparse import REACH

# Entries of the largest temporary tensor, (tokens, heads, model).
_ENTRIES = 1 << 24


@dataclass(frozen=True, eq=False)
class TokenPulls:
    """Some key columns of a layer, each to be edited alone: `pulls` are p (v − c) of every head."""

    __repr__ = short_repr

    layer: LayerCapture
    columns: Int[Tensor, " columns"]
    singles: PreparedSingles
    pulls: Float[Tensor, "heads columns width"]

    def strengths_of(
        self, scores: Float[Tensor, "kinds heads keys"]
    ) -> Float[Tensor, "kinds heads columns"] | None:
        """β of score increments, several kinds together; None where the quotient must not be used."""
        singles = self.singles
        if not singles.direct or not bool(torch.isfinite(scores).all()):
            return None
        if scores.max() > REACH[torch.float64]:
            return None
        strength = singles.rest * torch.expm1(scores)
        strength = strength / (singles.rest + singles.probs * torch.exp(scores))
        return strength[..., self.columns].float()

    def at_columns(self, response: Tensor) -> Float[Tensor, "heads columns width"]:
        """Responses Δy of every key, at the columns."""
        return response[:, self.columns].float()


@dataclass(frozen=True, eq=False)
class KindResponses:
    """Δy of kinds of edits at columns: β·p(v − c) for most, in full where `full` has their place.

    `strengths` is zero for those and where a kind is not allowed.
    """

    strengths: Float[Tensor, "kinds heads columns"]
    full: Mapping[int, Float[Tensor, "heads columns width"]]


def token_pulls(layer: LayerCapture, columns: Int[Tensor, " columns"]) -> Iterator[TokenPulls]:
    """Key columns of a layer, in pieces whose writes fit into memory."""
    singles = prepare_singles(layer.readout())
    rest = torch.where(singles.rest > 0, singles.rest, 1.0).unsqueeze(-1)
    pulls = (singles.pulls / rest).float()
    piece = max(1, _ENTRIES // (layer.heads * layer.write.shape[0]))
    for part in columns.split(piece):
        yield TokenPulls(layer, part, singles, pulls[:, part])


def kind_responses(
    prepared: TokenPulls,
    kinds: Sequence[Edit],
    known: Mapping[int, Float[Tensor, "heads keys"]] | None = None,
) -> KindResponses:
    """Responses of kinds of edits at the prepared columns; zero where a kind is not allowed.

    `known` are score increments that were formed before, by the place of their kind, of kinds that
    leave the values as they are.
    """
    layer, singles = prepared.layer, prepared.singles
    permitted = [(kind.allowed(layer) & layer.attended)[prepared.columns] for kind in kinds]
    strengths = prepared.pulls.new_zeros(len(kinds), *prepared.pulls.shape[:2])
    scores: dict[int, Tensor] = {n: each.double() for n, each in (known or {}).items()}
    full: dict[int, Tensor] = {}
    for place, (kind, allowed) in enumerate(zip(kinds, permitted, strict=True)):
        if kind.removes and singles.direct:
            strengths[place] = -1
        elif kind.removes:
            full[place] = prepared.at_columns(singles.deletion())
        elif place not in scores and bool(allowed.any()):
            tokens = tuple((prepared.columns[allowed] + layer.first).tolist())
            change = _change(prepared, kind.at(layer.layer, tokens))
            if isinstance(change, _Moved):
                full[place] = change.response
            else:
                scores[place] = change
    if scores:
        increments_ = torch.stack(list(scores.values()))
        several = prepared.strengths_of(increments_)
        if several is None:
            responses = [prepared.at_columns(singles.response(each)) for each in increments_]
            full |= dict(zip(scores, responses, strict=True))
        else:
            strengths[list(scores)] = several
    for place, allowed in enumerate(permitted):
        if not bool(allowed.all()):
            strengths[place] *= allowed
            if place in full:
                full[place] = full[place] * allowed.unsqueeze(-1)
    return KindResponses(strengths, full)


def kind_writes(
    prepared: TokenPulls,
    kinds: Sequence[Edit],
    known: Mapping[int, Float[Tensor, "heads keys"]] | None = None,
) -> Float[Tensor, "columns kinds model"]:
    """Writes of kinds of edits at the prepared columns, as `kind_responses` takes them."""
    weights = prepared.layer.output_projection.float()
    responses = kind_responses(prepared, kinds, known)
    vectors = torch.bmm(prepared.pulls, weights).movedim(0, 1)
    writes = torch.bmm(responses.strengths.permute(2, 0, 1), vectors)
    for place, response in responses.full.items():
        writes[:, place] = response.movedim(0, 1).flatten(1) @ weights.flatten(0, 1)
    return writes


def stacked_responses(prepared: TokenPulls, kinds: Sequence[Edit]) -> Float[Tensor, "rows outputs"]:
    """Δy of all heads side by side, one row for each kind and column."""
    responses = kind_responses(prepared, kinds)
    stacked = responses.strengths.unsqueeze(-1) * prepared.pulls
    for place, response in responses.full.items():
        stacked[place] = response
    return stacked.movedim(1, 2).flatten(2).flatten(0, 1)


@dataclass(frozen=True, eq=False)
class _Moved:
    """The response of an edit of the values."""

    response: Float[Tensor, "heads columns width"]


def _change(prepared: TokenPulls, edit: Edit) -> Tensor | _Moved:
    """What an edit does that acts on each column by itself: score increments, or a response."""
    layer, singles, columns = prepared.layer, prepared.singles, prepared.columns
    shared = edit.common_score(layer)
    if shared is not None:
        return shared.double().expand(singles.probs.shape)
    bank = edited_bank(layer, edit)
    if torch.equal(bank.values, layer.values):
        return increments(layer, bank).scores
    if torch.equal(bank.keys, layer.keys) and not bool(bank.bias.any()):
        moved = bank.values[:, columns].double() - layer.values[:, columns].double()
        moved = repeat_groups(moved.float(), layer.heads)
        return _Moved(singles.probs[:, columns].float().unsqueeze(-1) * moved)
    change = increments(layer, bank)
    return _Moved(prepared.at_columns(singles.response(change.scores, change.values)))
