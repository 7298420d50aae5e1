"""Every numerical check of the core by the public function it belongs to, and the result of running one."""

from dataclasses import dataclass

from proofs.numeric.comparison import Check, Tally
from proofs.numeric.comparisons import COMPARISONS
from proofs.numeric.properties import PROPERTIES
from proofs.numeric.stability import Stability

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


@dataclass(frozen=True)
class CheckResult:
    """One check in one precision; the stability of a property, which has no reference, is None."""

    tally: Tally
    stability: Stability | None

    @property
    def unstable(self) -> bool:
        """Whether a case lost digits that its inputs determine."""
        return self.stability is not None and not self.stability.holds

    @property
    def failed(self) -> bool:
        """Whether an error exceeded its bound or digits were lost."""
        return self.tally.violations > 0 or self.unstable


def builder(name: str) -> str:
    """The public function a check or a class belongs to."""
    owner = name.split(".")[0]
    return _BUILDERS.get(owner, owner)


def checks_of(function: str) -> list[Check]:
    """The checks of one public function or class, given with or without its module; may be empty."""
    owner = builder(function.rsplit(".", 1)[-1])
    return [check for name, check in CHECKS.items() if builder(name) == owner]
