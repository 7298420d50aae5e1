"""The last queries of one layer over its keys: what a decision about the cache is answerable to.

A decision for one query is exact for that query and for no other. A window holds the last few queries of a
layer beside the keys and values that they read, so that each candidate's response is exact for every one of
them. Heads stay heads: keys and values are kept in their physical groups and are never repeated here.
"""

from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus import deletion_response, freeze, project
from finite_calculus.margin import norm
from finite_calculus.models import LayerCapture
from finite_calculus.models.layer import repeat_groups
from finite_calculus.models.sinks import null_sink, sink_mask, sink_scores
from finite_calculus.models.softcap import capped

# Entries of one float64 tensor over queries, heads, keys and width that may be held at a time.
_CHUNK = 1 << 24


@dataclass(frozen=True, eq=False)
class QueryWindow:
    """Queries of one layer, its keys and values, and what each query attends to, group by group.

    `tokens` are those that the keys belong to. `sinks` are the heads' scores of a null key that is always
    attended and never evicted. `write_bias` is what the output projection adds to every write.
    """

    layer: int
    tokens: Int[Tensor, "groups keys"]
    queries: Float[Tensor, "queries heads width"]
    keys: Float[Tensor, "groups keys width"]
    values: Float[Tensor, "groups keys value_width"]
    attended: Bool[Tensor, "queries groups keys"]
    scaling: float
    softcap: float | None
    sinks: Float[Tensor, " heads"] | None
    output_projection: Float[Tensor, "heads value_width model"]
    write_bias: Float[Tensor, " model"] | None

    @classmethod
    def of_capture(cls, layer: LayerCapture) -> "QueryWindow":
        """The window of one query that a capture holds."""
        groups = layer.keys.shape[0]
        return cls(
            layer=layer.layer,
            tokens=torch.tensor(layer.tokens).expand(groups, -1),
            queries=layer.query.unsqueeze(0),
            keys=layer.keys,
            values=layer.values,
            attended=layer.attended.expand(1, groups, -1),
            scaling=layer.scaling,
            softcap=layer.softcap,
            sinks=layer.sinks,
            output_projection=layer.output_projection,
            write_bias=layer.output_bias,
        )

    @property
    def count(self) -> int:
        """Number of queries."""
        return self.queries.shape[0]

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return self.queries.shape[1]

    @property
    def groups(self) -> int:
        """Number of heads that have keys and values of their own."""
        return self.keys.shape[0]

    @property
    def members(self) -> int:
        """Query heads that read one group's keys."""
        return self.heads // self.groups

    @property
    def length(self) -> int:
        """Number of keys."""
        return self.keys.shape[1]

    def scores(self) -> Float[Tensor, "queries heads keys"]:
        """Scores in float64, before the attended set is applied."""
        grouped = self.queries.double().unflatten(1, (self.groups, self.members))
        raw = torch.einsum("qgmw,gkw->qgmk", grouped, self.keys.double()).flatten(1, 2)
        return capped(raw * self.scaling, self.softcap)

    def head_mask(self) -> Bool[Tensor, "queries heads keys"]:
        """The attended set of every head."""
        return self.attended.repeat_interleave(self.members, 1)

    def probs(self) -> Float[Tensor, "queries heads keys"]:
        """Attention in float64; with a sink a head's probabilities add up to less than one."""
        return self._probs

    @cached_property
    def _probs(self) -> Float[Tensor, "queries heads keys"]:
        scores = self.scores().masked_fill(~self.head_mask(), -torch.inf)
        return sink_scores(scores, self.sinks).softmax(-1)[..., : self.length]

    def writes(self) -> Float[Tensor, "queries model"]:
        """o = Σ_h y_h W_h + bias of every query, in float64."""
        grouped = self.probs().unflatten(1, (self.groups, self.members))
        output = torch.einsum("qgmk,gkw->qgmw", grouped, self.values.double()).flatten(1, 2)
        write = project(output, self.output_projection.double())
        return write if self.write_bias is None else write + self.write_bias.double()

    def sizes(self) -> Float[Tensor, " queries"]:
        """‖o‖₂ of every query."""
        return norm(self.writes())

    def changes(self, evicted: Bool[Tensor, "heads keys"]) -> Float[Tensor, "queries model"]:
        """Δo of every query if each head loses its evicted keys, the exact response of the whole set.

        Heads that lose the same keys share one readout of the core (eq:groupdeletion). A head that would be
        left with nothing to attend to is refused by the core.
        """
        scores, mask = self.scores(), self.head_mask()
        values = repeat_groups(self.values.double(), self.heads)
        some = max(1, _CHUNK // max(1, values.numel()))
        total = torch.zeros(self.count, self.output_projection.shape[-1], dtype=torch.float64)
        for heads in _alike(evicted):
            lost = evicted[heads[:1]]
            if not bool(lost.any()):
                continue
            sinks = None if self.sinks is None else self.sinks[heads]
            own = null_sink(values[heads], sinks, dim=-2)
            for rows in torch.arange(self.count).split(some):
                part = scores[rows][:, heads]
                readout = freeze(
                    sink_scores(part, sinks),
                    own.expand(len(rows), -1, -1, -1),
                    mask=sink_mask(mask[rows][:, heads], sinks),
                )
                response = deletion_response(readout, null_sink(lost, sinks)).squeeze(-2)
                total[rows] += project(response, self.output_projection[heads].double())
        return total

    def distortions(self, evicted: Bool[Tensor, "heads keys"]) -> Float[Tensor, " queries"]:
        """‖Δo‖₂ of every query, exact for the whole evicted set."""
        return norm(self.changes(evicted))


def _alike(evicted: Bool[Tensor, "heads keys"]) -> list[Tensor]:
    """Heads that lose the same keys, set by set."""
    _, which = torch.unique(evicted, dim=0, return_inverse=True)
    return [(which == number).nonzero().squeeze(-1) for number in range(int(which.max()) + 1)]
