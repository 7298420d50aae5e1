"""Calibration: what each depth shows on a set, and the policy that all sets of all families fix.

The rule for the layers is ours, since the paper prints the layers and no rule: the first layer, where phase
is everything, and the two others with the largest executed effects. It looks at no prediction's error.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from finite_calculus.harness import Records
from finite_calculus.studies.positional.rows import Calibration

if TYPE_CHECKING:
    from finite_calculus.studies.positional.predictors import LayerShifts
    from finite_calculus.studies.positional.variant import Variant

LAYERS, DELETION_LAYERS = 3, 2


def calibration_part(
    variant: "Variant",
    known: "Mapping[int, LayerShifts]",
    effects: Mapping[int, Sequence[float]],
    seed: Sequence[int],
) -> list[Calibration]:
    """One row for each depth of a set, from predicted and executed shifts by layer."""
    from finite_calculus.studies.positional.predictors import predict_finite, predict_jacobian
    from finite_calculus.studies.positional.repairs import list_choices, relative_error

    listed = []
    for number, shifts in known.items():
        executed = np.asarray(effects[number])
        finite, jacobian = (
            np.asarray(predict(shifts).tolist()) for predict in (predict_finite, predict_jacobian)
        )
        choices = list_choices(variant.capture.layer(number), seed, methods=[("exact", True)])
        repair = {f"repair_{c.bits}_{c.entries}": relative_error(c) for c in choices if c.entries}
        listed.append(
            Calibration(
                *variant.place,
                layer=number,
                effect=_mean(abs(executed)),
                error_finite=_mean(abs(executed - finite)),
                error_jacobian=_mean(abs(executed - jacobian)),
                **repair,
            )
        )
    return listed


def decide_policy(records: Records) -> dict[str, Any]:
    """Three layers by executed effect, of them two for deletions, and the layer of the best repair."""
    rows = records.rows(Calibration)
    depths = sorted({row.layer for row in rows})
    effects = {d: _mean(row.effect for row in rows if row.layer == d) for d in depths}
    repair = {d: _mean(row.repair for row in rows if row.layer == d) for d in depths}
    first, *others = depths
    strongest = sorted(others, key=lambda depth: -effects[depth])[: LAYERS - 1]
    layers = sorted([first, *strongest])
    return {
        "depths": depths,
        "layers": layers,
        "deletion_layers": layers[:DELETION_LAYERS],
        "repair_layer": min(depths, key=lambda depth: repair[depth]),
    }


def _mean(values: Any) -> float:
    return float(np.mean(list(values)))
