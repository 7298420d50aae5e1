"""The tables of the positional study: one dataclass each, the only home of its columns.

Margins, effects and predictions are signed towards the label that the model prefers on the unedited
prompt (eq:marginprediction).
"""

import math
from dataclasses import dataclass, fields

from finite_calculus.harness import Row


@dataclass(frozen=True)
class SetRow(Row):
    """What every row begins with: the task and the number of its prompt set."""

    task: str
    set: int

    @property
    def cluster(self) -> str:
        """The prompt set, which the bootstrap resamples as a whole."""
        return f"{self.task}-{self.set}"

    @property
    def finite(self) -> bool:
        """Whether every number is one."""
        values = (getattr(self, field.name) for field in fields(self))
        return all(math.isfinite(value) for value in values if isinstance(value, float))


@dataclass(frozen=True)
class Calibration(SetRow):
    """One calibrated layer on one set: mean size of executed effects, errors, and the errors of repair.

    `repair_B_K` is the relative RMSE of the write at B bits after K exact greedy restorations.
    """

    layer: int
    effect: float
    error_finite: float
    error_jacobian: float
    repair_2_1: float
    repair_2_4: float
    repair_4_1: float
    repair_4_4: float

    @property
    def repair(self) -> float:
        """The mean over bits and budgets."""
        return (self.repair_2_1 + self.repair_2_4 + self.repair_4_1 + self.repair_4_4) / 4


@dataclass(frozen=True)
class PositionalEdit(SetRow):
    """One executed shift of the demonstrations' keys.

    `control` is the unedited margin in the same batch, `path_drift` its distance from the captured one.
    `predicted_second` adds the second order downstream along the edit's own write to the finite prediction,
    where the settings ask for it.
    `dense` is the finite prediction by two softmaxes. `local_*` are the executed and predicted writes along
    the gradient. `angle` is the largest |δω| of the band. The rest is the certificate of the Jacobian, for
    exact rotations: mean KL and TV over heads, its bound with the rotary part of it, the error of the
    Jacobian that it bounds, and what the error would be with exact increments (`softmax_gap`).
    """

    variant: int
    layer: int
    shift: int
    band: str
    tokens: int
    edited: int
    answer: str
    preferred: str
    control: float
    path_drift: float
    effect: float
    predicted_finite: float
    predicted_jacobian: float
    predicted_second: float | None
    dense: float
    local_executed: float
    local_predicted: float
    local_bound: float
    angle: float
    kl: float
    tv: float
    softmax_gap: float
    rotary_part: float
    jacobian_gap: float
    jacobian_bound: float

    @property
    def softmax_bound(self) -> float:
        """The part of the bound that is not the rotary remainder: Σ_h KL·max|a|, and all rounding."""
        return self.jacobian_bound - self.rotary_part

    @property
    def place(self) -> tuple[str, int, int, int, int, str]:
        """What tells an edit from all others of a run."""
        return self.task, self.set, self.variant, self.layer, self.shift, self.band


@dataclass(frozen=True)
class BandInteraction(SetRow):
    """The fast–middle interaction of one variant: norms of H in two forms and of the joint effect T."""

    variant: int
    layer: int
    shift: int
    closed: float
    cells: float
    joint: float
    apart: float
    budget: float


@dataclass(frozen=True)
class Reordering(SetRow):
    """One reordering at one layer: ⟨Φ, T⟩, ⟨C, T⟩, ⟨J, T⟩ and ‖T‖² of eq:phasecontent."""

    variant: int
    layer: int
    phase: float
    context: float
    interaction: float
    total: float


@dataclass(frozen=True)
class SpanDeletion(SetRow):
    """One executed deletion of a demonstration, its predictions and the two controls of magnitude."""

    variant: int
    layer: int
    span: int
    effect: float
    predicted_finite: float
    predicted_jacobian: float
    attention: float
    value_norm: float
    local_executed: float
    local_predicted: float
    local_bound: float


@dataclass(frozen=True)
class Repair(SetRow):
    """One quantised prefix after some restorations: ‖write error‖ over that before any (eq:repairmetric).

    `rescored` says whether benefits were evaluated again after each restoration; `effect` is the executed
    change of the margin against the unquantised cache, `unrepaired` that without any restoration.
    """

    layer: int
    bits: int
    method: str
    rescored: bool
    entries: int
    relative_error: float
    corrupt_error: float
    effect: float
    unrepaired: float
