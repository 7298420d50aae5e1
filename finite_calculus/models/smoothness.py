"""Whether a model has the second derivative that is asked of it, or only that of the piece it is on."""

from typing import Any

from transformers import PreTrainedModel

from finite_calculus.models.precision import precision_of
from finite_calculus.models.support import UnsupportedModelError


def missing_smoothness(model: PreTrainedModel) -> str:
    """Why the margin has no second derivative everywhere, in a sentence; empty if it has one."""
    config: Any = model.config.get_text_config(decoder=True)
    reasons = []
    counts = [getattr(config, name, None) for name in ("num_local_experts", "num_experts")]
    if any(isinstance(count, int) and count > 1 for count in counts):
        reasons.append("experts are chosen by a hard switch, and an edit may change the choice")
    names = ("hidden_act", "hidden_activation", "activation_function")
    activation = next((str(getattr(config, n)) for n in names if getattr(config, n, None)), "")
    if activation.startswith("relu"):
        reasons.append(f"the activation {activation} bends in a point")
    if not reasons:
        return ""
    return " and ".join(reasons) + ": the second derivative is that of the piece the prompt is on"


def require_digits(model: PreTrainedModel) -> None:
    """Refuse second derivatives of a model in half precision: there they are rounding."""
    precision = precision_of(model.dtype)
    if precision.half:
        raise UnsupportedModelError(
            f"Second derivatives need a model in float32; this one computes in {precision.name}, whose "
            f"rounding is larger than they are. Leave curvature out, or load it with dtype=float32."
        )
