"""The row of an audit in units: what a block found, and its part of the record as JSON."""

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from finite_calculus.harness import Row

if TYPE_CHECKING:
    from proofs.numeric.spread import Block


@dataclass(frozen=True)
class Part(Row):
    """A block of cases of a check in a precision, or of the sample that is held against the problem."""

    function: str
    dtype: str
    digits: bool
    cases: int
    violations: int
    worst: float
    record: str

    @classmethod
    def of(cls, block: "Block", part: dict[str, Any]) -> "Part":
        """The row of a block that was measured."""
        worst = part["bits"] if block.digits else part["worst_over_bound"]
        violations = 0 if block.digits else part["violations"]
        # Two machines need not write the keys in the same order.
        text = json.dumps(part, sort_keys=True)
        return cls(
            block.name, block.dtype, block.digits, part["cases"], violations, float(worst), text
        )
