"""A case of one's own in a JSON file: the prompt, the functions that an answer may call, and its checks.

```
{"message": "…", "reply": "Call:", "chat": true, "emphasised": ["…"], "target": "legacy",
 "functions": {"legacy": "reverse", "lookup": "upper"}, "inputs": ["value"],
 "checks": [{"inputs": {"value": "Stone"}, "expected": "enotS"}]}
```
`functions` map names to operations of `finite_calculus.expressions`; `target` is the one that a right answer
begins with, which the ranking is given. The emphasised messages are run beside the message.
"""

from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from finite_calculus.expressions import Contract, Value
from finite_calculus.harness import Frozen
from finite_calculus.provenance.files import read_text
from finite_calculus.tasks.api_cases import ApiCase, Trial


class CheckEntry(Frozen):
    """The inputs of an expression and the value that is right."""

    inputs: dict[str, str | int]
    expected: str | int


class CaseFile(Frozen):
    """What the file holds."""

    message: Annotated[str, Field(min_length=1)]
    reply: str = ""
    chat: bool = True
    emphasised: tuple[str, ...] = ()
    target: str
    functions: dict[str, str]
    inputs: tuple[str, ...] = ("value",)
    checks: Annotated[tuple[CheckEntry, ...], Field(min_length=1)]

    def case(self, name: str) -> ApiCase:
        """The case as the study knows it."""
        if self.target not in self.functions:
            raise ValueError(
                f"`target` must be one of the functions {', '.join(self.functions)}; got {self.target!r}."
            )
        contract = Contract(self.functions, self.inputs)
        wrong = [check.inputs for check in self.checks if set(check.inputs) != set(self.inputs)]
        if wrong:
            raise ValueError(
                f"`checks` must give a value for each input of {list(self.inputs)}; got {wrong[0]}."
            )
        return ApiCase(
            name=name,
            kind="own",
            chat=self.chat,
            message=self.message,
            emphasised=self.emphasised,
            reply=self.reply,
            contract=contract,
            solution=f"{self.target}(",
            target=self.target,
            trials=tuple(Trial(_values(check.inputs), check.expected) for check in self.checks),
        )


def read_case(path: Path) -> ApiCase:
    """The case of a file; ValueError says what is wrong with it."""
    try:
        content = CaseFile.model_validate_json(read_text(path))
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"The case must be a readable file; {path} is not: {error}") from None
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the file"
        raise ValueError(f"{path.name}: {where}: {first['msg']}.") from None
    return content.case(path.stem)


def written_case(case: ApiCase) -> dict[str, Any]:
    """A case as such a file holds it."""
    entries = tuple(CheckEntry(inputs=dict(t.inputs), expected=t.expected) for t in case.trials)
    return CaseFile(
        message=case.message,
        reply=case.reply,
        chat=case.chat,
        emphasised=case.emphasised,
        target=case.target,
        functions=dict(case.contract.functions),
        inputs=case.contract.inputs,
        checks=entries,
    ).model_dump(mode="json")


def _values(inputs: dict[str, str | int]) -> dict[str, Value]:
    return dict(inputs)
