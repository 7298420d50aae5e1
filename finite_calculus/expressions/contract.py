"""A contract: which functions an expression may call, which operation each of them is, and its inputs."""

from collections.abc import Mapping
from dataclasses import dataclass
from keyword import iskeyword

from finite_calculus.expressions.operations import OPERATIONS, Value as Value


@dataclass(frozen=True)
class Contract:
    """Names of functions with their operations, and the names of the inputs."""

    functions: Mapping[str, str]
    inputs: tuple[str, ...] = ("value",)

    def __post_init__(self) -> None:
        unknown = sorted(set(self.functions.values()) - set(OPERATIONS))
        if unknown or not self.functions:
            raise ValueError(
                f"`functions` must map names to operations, of {', '.join(OPERATIONS)}; got "
                f"{', '.join(map(repr, unknown)) or 'no function'}."
            )
        names = [*self.functions, *self.inputs]
        wrong = [n for n in names if not (n.isidentifier() and n.isascii()) or iskeyword(n)]
        if wrong or len(set(names)) != len(names):
            raise ValueError(
                f"Names of functions and inputs must be distinct ASCII identifiers and no keywords of "
                f"Python, which no expression could call; got {names}."
            )
