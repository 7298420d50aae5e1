"""What runs in the child process: one request from standard input, one answer to standard output."""

import json
import sys

from finite_calculus.expressions.contract import Contract
from finite_calculus.expressions.grammar import Bounds, RefusedError, parse
from finite_calculus.expressions.interpreter import compute


def main() -> None:
    """Answer {"values": [...]} or {"refused": reason}."""
    request = json.load(sys.stdin)
    try:
        contract = Contract(request["functions"], tuple(request["names"]))
        tree = parse(request["text"], Bounds(**request["bounds"]))
        values = [compute(tree, contract, inputs) for inputs in request["inputs"]]
        answer = {"values": values}
    except RefusedError as reason:
        answer = {"refused": str(reason)}
    json.dump(answer, sys.stdout)
