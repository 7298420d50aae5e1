"""The columns of a table about what lies beyond the edited write: a prediction, and what was executed."""

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus.models.words import short_repr
from finite_calculus.search.anchors import LayerAnchors


@dataclass(frozen=True, eq=False)
class Calibrated:
    """What executed candidates say of all: `band` holds the executed effect at rate `level`.

    `corrected` is the prediction with the next order as the executed anchors have it, and `scale` how
    wrong it may well be, up to a factor. `executed` is nan where nothing was executed. `group` numbers
    the stratum of every row, `sampled` marks the rows that were drawn at random from it. `trusted` rows
    keep their sign within the band and have nothing else against them.
    """

    __repr__ = short_repr

    corrected: Float[Tensor, " rows"]
    executed: Float[Tensor, " rows"]
    group: Int[Tensor, " rows"]
    sampled: Bool[Tensor, " rows"]
    scale: Float[Tensor, " rows"]
    band: Float[Tensor, " rows"]
    trusted: Bool[Tensor, " rows"]
    level: float


@dataclass(frozen=True, eq=False)
class Downstream:
    """Columns beside a table's predicted effects, one entry for each candidate.

    `size` is ‖Δo‖ over the norm of the residual stream that the write enters. With curvature, `second` is
    the effect predicted to second order, `outside` the share of the write that the directions do not
    hold, and `missing` an estimate of the second-order term of that part, ½ λ‖r‖² with λ the largest
    curvature along the directions. `scale` is how wrong a prediction may well be, up to a factor that
    execution finds. `anchors` are the candidates to execute first, to learn the next order from.
    """

    __repr__ = short_repr

    size: Float[Tensor, " rows"]
    scale: Float[Tensor, " rows"]
    anchors: tuple[LayerAnchors, ...]
    second: Float[Tensor, " rows"] | None = None
    outside: Float[Tensor, " rows"] | None = None
    missing: Float[Tensor, " rows"] | None = None
    calibrated: Calibrated | None = None

    def columns(self) -> dict[str, Tensor]:
        """The columns that a user sees, those that there are."""
        columns = {"second": self.second, "size": self.size, "outside": self.outside}
        if self.calibrated is not None:
            done = self.calibrated
            columns |= {
                "corrected": done.corrected,
                "band": done.band,
                "trusted": done.trusted,
                "executed": done.executed,
            }
        return {name: column for name, column in columns.items() if column is not None}
