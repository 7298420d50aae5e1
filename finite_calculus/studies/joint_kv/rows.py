"""The table of the joint study: one row for every executed intervention.

`part_*` are G of L_s, K_f, V_0, C_KV and C_2; `predicted_*` the predictors, of which zero is 0 and is not
stored; `effect` is executed. `local_*` compare the executed float32 write, contracted with the gradient, with
its prediction from the very tensors of that row. `executed_interaction` is the four-cell effect
(eq:jointdownstreamfactorial), which only joint edits at full strength have. `predicted_second` adds to exact
joint the second order downstream along the edit's own write, for joint edits; the first version lacks it.
"""

import math
from dataclasses import dataclass, fields
from typing import Annotated

import pyarrow as pa

from finite_calculus.harness import Row

Small = Annotated[int, pa.int32()]


@dataclass(frozen=True)
class Intervention(Row):
    """One executed edit of one span beside its predictions."""

    task: str
    kind: str
    answer: str
    layer: Small
    pair: Small
    span: Small
    first_token: Small
    tokens: Small
    strength: float
    baseline: float
    control: float
    margin: float
    effect: float
    control_drift: float
    row_drift: float
    part_linear: float
    part_key: float
    part_value: float
    part_interaction: float
    part_quadratic: float
    predicted_first_order: float
    predicted_separate: float
    predicted_quadratic: float
    predicted_joint: float
    dense: float
    effective: float
    local_executed: float
    local_predicted: float
    local_bound: float
    executed_interaction: float | None
    interaction_residual: float | None
    predicted_second: float | None

    @property
    def place(self) -> tuple[str, int, int, int, str, float]:
        """What tells an intervention from all others of a run."""
        return self.task, self.layer, self.pair, self.span, self.kind, self.strength

    @property
    def finite(self) -> bool:
        """Whether every number is one."""
        values = (getattr(self, field.name) for field in fields(self))
        return all(math.isfinite(value) for value in values if isinstance(value, float))
