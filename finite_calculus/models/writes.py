"""The exact writes Δo of single-token edits as vectors, all tokens of a layer at once.

In head h an edit of the scores moves y by β p(v − c), with c the mean of all other keys and
β = rest·expm1(d)/(rest + p e^d), which is −1 for a deletion (eq:singlerepair). The vectors W_h p(v − c) do
not depend on the strength, so they are projected once and all kinds are one product of small matrices.
Coefficients are formed in float64, vectors in float32: enough for directions and for second-order terms;
predicted effects come from `predict` and the search.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.models.edits import Edit, edited_bank
from finite_calculus.models.layer import LayerCapture
from finite_calculus.models.predict import increments
from finite_calculus.models.words import short_repr
from finite_calculus.singles import PreparedSingles, prepare_singles
from finite_calculus.sparse import REACH

# Entries of the largest temporary tensor, (tokens, heads, model).
_ENTRIES = 1 << 24


@dataclass(frozen=True, eq=False)
class TokenWrites:
    """Some key columns of a layer, prepared for the writes of edits of each of them alone."""

    __repr__ = short_repr

    layer: LayerCapture
    columns: Int[Tensor, " columns"]
    singles: PreparedSingles
    vectors: Float[Tensor, "columns heads model"]

    def of_scores(
        self, scores: Float[Tensor, "kinds heads keys"]
    ) -> Float[Tensor, "kinds columns model"]:
        """Writes of score increments, several kinds together."""
        singles = self.singles
        reach = REACH[torch.float64]
        if not singles.direct or not bool(torch.isfinite(scores).all()) or scores.max() > reach:
            return torch.stack([self.of_response(singles.response(each)) for each in scores])
        strength = singles.rest * torch.expm1(scores)
        return self._weighed(strength / (singles.rest + singles.probs * torch.exp(scores)))

    def of_deletion(self) -> Float[Tensor, "columns model"]:
        """Writes of deleting each token."""
        if not self.singles.direct:
            return self.of_response(self.singles.deletion())
        return self._weighed(-torch.ones_like(self.singles.probs).unsqueeze(0))[0]

    def of_response(
        self, response: Float[Tensor, "heads keys width"]
    ) -> Float[Tensor, "columns model"]:
        """Writes of given responses Δy of every key."""
        chosen = response[:, self.columns].float().movedim(0, 1)
        return chosen.flatten(1) @ self.layer.output_projection.float().flatten(0, 1)

    def _weighed(self, strength: Float[Tensor, "kinds heads keys"]) -> Tensor:
        chosen = strength[..., self.columns].float().permute(2, 0, 1)
        return torch.bmm(chosen, self.vectors).movedim(0, 1)


def token_writes(
    layer: LayerCapture, columns: Int[Tensor, " columns"], *, singles: PreparedSingles | None = None
) -> Iterator[TokenWrites]:
    """Prepare key columns of a layer, in pieces that fit into memory."""
    singles = prepare_singles(layer.readout()) if singles is None else singles
    rest = torch.where(singles.rest > 0, singles.rest, 1.0).unsqueeze(-1)
    pulls = (singles.pulls / rest).float()
    weights = layer.output_projection.float()
    piece = max(1, _ENTRIES // (weights.shape[0] * weights.shape[-1]))
    for part in columns.split(piece):
        vectors = torch.bmm(pulls[:, part], weights).movedim(0, 1).contiguous()
        yield TokenWrites(layer, part, singles, vectors)


def kind_writes(
    prepared: TokenWrites,
    kinds: tuple[Edit, ...],
    known: Mapping[int, Float[Tensor, "heads keys"]] | None = None,
) -> Float[Tensor, "kinds columns model"]:
    """Writes of kinds of edits at the prepared columns; zero where a kind is not allowed.

    `known` are score increments that were formed before, by the place of their kind, of kinds that
    leave the values as they are.
    """
    layer = prepared.layer
    permitted = [(kind.allowed(layer) & layer.attended)[prepared.columns] for kind in kinds]
    writes = layer.write.new_zeros(len(kinds), len(prepared.columns), layer.write.shape[0])
    scores: dict[int, Tensor] = {n: each.double() for n, each in (known or {}).items()}
    for place, (kind, allowed) in enumerate(zip(kinds, permitted, strict=True)):
        if kind.removes:
            writes[place] = prepared.of_deletion()
        elif place not in scores and bool(allowed.any()):
            tokens = tuple((prepared.columns[allowed] + layer.first).tolist())
            change = _changes(prepared, kind.at(layer.layer, tokens))
            if change.values is None:
                scores[place] = change.scores
            else:
                response = prepared.singles.response(change.scores, change.values)
                writes[place] = prepared.of_response(response)
    if scores:
        writes[list(scores)] = prepared.of_scores(torch.stack(list(scores.values())))
    allowed = torch.stack(permitted)
    # Where all are allowed, as nearly always, nothing is copied.
    return writes if bool(allowed.all()) else writes * allowed.unsqueeze(-1)


@dataclass(frozen=True, eq=False)
class _Changes:
    scores: Float[Tensor, "heads keys"]
    values: Float[Tensor, "heads keys width"] | None


def _changes(prepared: TokenWrites, edit: Edit) -> _Changes:
    """Score and value increments of an edit that acts on each column by itself."""
    layer = prepared.layer
    shared = edit.common_score(layer)
    if shared is not None:
        return _Changes(shared.double().expand(prepared.singles.probs.shape), None)
    bank = edited_bank(layer, edit)
    change = increments(layer, bank)
    return _Changes(
        change.scores, None if torch.equal(bank.values, layer.values) else change.values
    )
