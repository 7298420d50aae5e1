"""Computing an expression that was read: names looked up in the contract, operations on bounded values.

No attribute is ever taken and nothing is called but the operations of the contract; a value that outgrows
its bound ends the computation with a reason.
"""

from collections.abc import Mapping

from finite_calculus.expressions.contract import Contract
from finite_calculus.expressions.grammar import Call, Constant, Node, RefusedError, Variable
from finite_calculus.expressions.operations import (
    MOST_CHARACTERS,
    MOST_DIGITS,
    OPERATIONS,
    Operation,
    Value,
)

_WORDS = {int: "a number", str: "a text"}


def compute(node: Node, contract: Contract, inputs: Mapping[str, Value]) -> Value:
    """The value of an expression on one set of inputs; raises RefusedError with the reason."""
    if isinstance(node, Constant):
        return node.value
    if isinstance(node, Variable):
        if node.name not in contract.inputs:
            kind = "a function, not an input" if node.name in contract.functions else "not an input"
            raise RefusedError(f"{node.name} is {kind} of the contract")
        return inputs[node.name]
    if node.function not in contract.functions:
        raise RefusedError(f"{node.function} is not a function of the contract")
    operation = OPERATIONS[contract.functions[node.function]]
    bound = _bind(node, operation)
    values = {name: compute(each, contract, inputs) for name, each in bound.items()}
    for name, value in values.items():
        wanted = operation.parameters[name]
        if type(value) is not wanted:
            raise RefusedError(
                f"{node.function} takes {_WORDS[wanted]} for {name}; got {_WORDS[type(value)]}"
            )
    return _bounded(operation.compute(*(values[name] for name in operation.parameters)))


def _bind(call: Call, operation: Operation) -> dict[str, Node]:
    """The arguments by parameter: each exactly once."""
    names = tuple(operation.parameters)
    pairs = [*zip(names, call.arguments, strict=False), *call.named]
    given = dict(pairs)
    complete = len(call.arguments) <= len(names) and len(given) == len(pairs)
    if not complete or set(given) != set(names):
        raise RefusedError(f"{call.function} takes the arguments {', '.join(names)}, each once")
    return given


def _bounded(value: Value) -> Value:
    if isinstance(value, str) and len(value) > MOST_CHARACTERS:
        raise RefusedError(f"a text outgrew {MOST_CHARACTERS} characters")
    if isinstance(value, int) and abs(value) >= 10**MOST_DIGITS:
        raise RefusedError(f"a number outgrew {MOST_DIGITS} digits")
    return value
