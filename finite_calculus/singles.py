"""Edits of one key at a time, every key of a readout at once: Section 4 and Appendix D (eq:singlerepair).

For a single key the quotient of main:sparse has closed form in its probability p and the probability of
all other keys. Only the dominant key can hold more than half of the mass, so its complement alone is
summed anew; values measured from that key make p (v − y) accurate for every key. Larger groups are the
business of `prepare`.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus._complement import outside_groups, require_rest, rest_of_each
from finite_calculus._transforms import known, number
from finite_calculus.readout import Readout
from finite_calculus.response import attended_value_delta, relative_increments
from finite_calculus.rounding import Tracked
from finite_calculus.sparse import (
    REACH,
    PreparedGroups,
    Source,
    assemble,
    gather,
    gather_vectors,
    numbers_of,
)


@dataclass(frozen=True, eq=False)
class PreparedSingles:
    """Every key of a readout as a candidate of its own; build with `prepare_singles`.

    `probs` are the keys' probabilities, `rest` those of all the other keys and `pulls` are p (v − y).
    `direct` says whether the quotient may be used. Editing a key that is not attended changes nothing.
    """

    readout: Readout
    probs: Float[Tensor, "*batch keys"]
    rest: Float[Tensor, "*batch keys"]
    pulls: Float[Tensor, "*batch keys width"]
    direct: bool

    def response(
        self,
        score_delta: Float[Tensor, "*edits"],
        value_delta: Float[Tensor, "*vedits keys width"] | None = None,
    ) -> Float[Tensor, "*lifted keys width"]:
        """Exact response to editing each key alone (eq:singlerepair).

        Δ_j y = [p expm1(d)(v − y) + p e^d ε]/(rest + p e^d). The last axis of `score_delta` may have
        length 1 for an increment that all keys share, as when their odds are multiplied.
        """
        if value_delta is not None:
            value_delta = attended_value_delta(self.readout, value_delta)
        if not self._quotient_suffices(score_delta):
            return self._guarded(score_delta, value_delta)
        edited = self.probs * torch.exp(score_delta)
        change = torch.expm1(score_delta).unsqueeze(-1) * self.pulls
        if value_delta is not None:
            change = change + edited.unsqueeze(-1) * value_delta
        return change / (self.rest + edited).unsqueeze(-1)

    def deletion(self) -> Float[Tensor, "*batch keys width"]:
        """Exact response to deleting each key alone: −p (v − y)/rest (eq:groupdeletion)."""
        require_rest(self.readout.attended.sum(-1, keepdim=True) > 1, "readout")
        if not self.direct:
            return self.groups().deletion()
        return -self.pulls / self.rest.unsqueeze(-1)

    def groups(self) -> PreparedGroups:
        """The same candidates as groups of one, for what only groups offer.

        Unlike a group of `prepare`, one of these may be a key that is not attended.
        """
        readout = self.readout
        index = torch.arange(readout.keys, device=self.probs.device).unsqueeze(-1)
        return assemble(
            gather(readout.scores, index),
            gather_vectors(readout.values, index),
            self.probs.unsqueeze(-1),
            self.pulls.unsqueeze(-2),
            known(readout.attended.all()),
            Source(lambda: readout, index, outside_groups(index)),
        )

    def _quotient_suffices(self, score_delta: Tensor) -> bool:
        """Whether the quotient is as good as it gets: a rest to divide by, nothing infinite or out of range.

        Beyond e^d = 1/eps a probability below the normal numbers would not stay negligible, and
        products with values could overflow.
        """
        if not self.direct or score_delta.dtype != self.probs.dtype or not score_delta.numel():
            return False
        if isinstance(score_delta, Tracked) != isinstance(self.probs, Tracked):
            return False
        if score_delta.shape[-1:] not in ((1,), self.probs.shape[-1:]):
            return False
        lowest, highest = map(number, torch.aminmax(numbers_of(score_delta)))
        return math.isfinite(lowest) and highest <= REACH[score_delta.dtype]

    def _guarded(self, score_delta: Tensor, value_delta: Tensor | None) -> Tensor:
        if score_delta.shape[-1:] == (1,):
            score_delta = score_delta.expand(*score_delta.shape[:-1], self.readout.keys)
        relative_increments(self.readout, score_delta)
        spread = score_delta.expand(torch.broadcast_shapes(score_delta.shape, self.probs.shape))
        edits = None if value_delta is None else value_delta.unsqueeze(-2)
        return self.groups().response(spread.unsqueeze(-1), edits)


def prepare_singles(readout: Readout) -> PreparedSingles:
    """Prepare every key of a readout for exact edits of its own (Section 4, eq:singlerepair)."""
    rest = rest_of_each(readout)
    info = torch.finfo(rest.dtype)
    return PreparedSingles(
        readout=readout,
        probs=readout.probs,
        rest=rest,
        pulls=2 * (readout.probs.unsqueeze(-1) * readout.half_centred),
        direct=known((rest >= info.smallest_normal / info.eps).all()),
    )
