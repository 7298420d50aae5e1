"""Every numerical check of the core by the public function it belongs to."""

from proofs.comparison import Check
from proofs.comparisons import COMPARISONS
from proofs.properties import PROPERTIES

CHECKS: dict[str, Check] = {**COMPARISONS, **PROPERTIES}

# Checks of a class belong to the function that builds it.
_BUILDERS = {
    "PreparedGroups": "prepare",
    "EffectiveWeights": "effective_weights",
    "Certificate": "certify",
    "QueryControl": "control_query",
    "Readout": "freeze",
    "Bank": "read_bank",
    "Rotary": "rotate",
}


def builder(name: str) -> str:
    """The public function a check or a class belongs to."""
    owner = name.split(".")[0]
    return _BUILDERS.get(owner, owner)


def checks_of(function: str) -> list[Check]:
    """The checks of one public function or class, given with or without its module; may be empty."""
    wanted = builder(function.rsplit(".", 1)[-1])
    return [check for name, check in CHECKS.items() if builder(name) == wanted]
