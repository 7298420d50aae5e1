"""The columns of a table about what lies beyond the edited write: a prediction, and what was executed."""

from dataclasses import dataclass

from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus.models.words import short_repr


@dataclass(frozen=True, eq=False)
class Calibrated:
    """What executed candidates say of all: `band` holds the executed effect at rate `level`.

    `executed` is nan where nothing was executed. `group` numbers the stratum of every row, `sampled`
    marks the rows that were drawn at random from it. `trusted` rows keep their sign within the band
    and have nothing else against them.
    """

    __repr__ = short_repr

    executed: Float[Tensor, " rows"]
    group: Int[Tensor, " rows"]
    sampled: Bool[Tensor, " rows"]
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
    execution finds.
    """

    __repr__ = short_repr

    size: Float[Tensor, " rows"]
    scale: Float[Tensor, " rows"]
    second: Float[Tensor, " rows"] | None
    outside: Float[Tensor, " rows"] | None
    missing: Float[Tensor, " rows"] | None
    calibrated: Calibrated | None = None

    def columns(self) -> dict[str, Tensor]:
        """The columns that a user sees, those that there are."""
        columns = {"second": self.second, "size": self.size, "outside": self.outside}
        if self.calibrated is not None:
            done = self.calibrated
            columns |= {"band": done.band, "trusted": done.trusted, "executed": done.executed}
        return {name: column for name, column in columns.items() if column is not None}
