"""An untrusted expression on several inputs: its values, or the reason why there are none."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from finite_calculus.expressions.confinement import Limits, run_confined
from finite_calculus.expressions.contract import Contract, Value
from finite_calculus.expressions.grammar import Bounds

# The package itself is not imported in the child, only this room: the rest of it needs torch.
_PROGRAM = """
import types
package = types.ModuleType("finite_calculus")
package.__path__ = [{path!r}]
sys.modules["finite_calculus"] = package
from finite_calculus.expressions.child import main
main()
"""


@dataclass(frozen=True)
class Evaluation:
    """The values on all inputs (`computed`), or why there are none: `refused` by the allow-list, the
    contract or a bound on values, or `stopped` by a limit of the process."""

    ended: Literal["computed", "refused", "stopped"]
    values: tuple[Value, ...] = ()
    reason: str = ""


def evaluate(
    text: str,
    contract: Contract,
    inputs: Sequence[Mapping[str, Value]],
    *,
    bounds: Bounds | None = None,
    limits: Limits | None = None,
) -> Evaluation:
    """Evaluate an untrusted expression in a confined child process, on each of `inputs`.

    `inputs` map every name of the contract's inputs to a number or a text; they are the caller's own.
    """
    allowed = Bounds() if bounds is None else bounds
    wrong = [each for each in inputs if set(each) != set(contract.inputs)]
    if wrong or not inputs:
        raise ValueError(
            f"`inputs` must give a value for each of {contract.inputs}, at least once; got "
            f"{wrong[0] if wrong else 'no inputs'}."
        )
    # The child refuses it as well; here it spares the copy.
    if len(text) > allowed.characters:
        return Evaluation(
            "refused", (), f"longer than {allowed.characters} characters: {len(text)}"
        )
    request = {
        "text": text,
        "bounds": asdict(allowed),
        "functions": dict(contract.functions),
        "names": contract.inputs,
        "inputs": [dict(each) for each in inputs],
    }
    program = _PROGRAM.format(path=str(Path(__file__).parents[1]))
    child = run_confined(program, json.dumps(request).encode(), limits)
    if child.ended != "finished":
        return Evaluation("stopped", (), child.reason)
    return _answer(child.output, len(inputs))


def _answer(output: bytes, count: int) -> Evaluation:
    """What the child says; a child that says nothing sensible was stopped by something."""
    try:
        answer = json.loads(output)
        if "refused" in answer:
            return Evaluation("refused", (), str(answer["refused"]))
        values = tuple(answer["values"])
        if len(values) == count and all(type(value) in (int, str) for value in values):
            return Evaluation("computed", values)
    except (ValueError, KeyError, TypeError):
        pass
    return Evaluation("stopped", (), "the process gave no answer")
