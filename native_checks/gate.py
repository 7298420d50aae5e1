"""The gate of a named checkpoint: tiny random Qwen2 and Llama first, then the checkpoint itself.

The tiny models run the same checks without any download and in a moment. If one of them fails, the
instrument or the installation is at fault and not the checkpoint.
"""

import dataclasses
import os
from dataclasses import dataclass
from pathlib import Path

import torch

from finite_calculus.checkpoints import load
from native_checks.preflight import PreflightReport, preflight
from native_checks.records import write_json

REFERENCES = ("tiny-qwen2", "tiny-llama")


@dataclass(frozen=True)
class GateReport:
    """Reports by the name of the model, in the order in which they were made."""

    models: dict[str, PreflightReport]

    @property
    def passed(self) -> bool:
        """Whether every check of every model passed."""
        return all(report.passed for report in self.models.values())

    @property
    def failed(self) -> tuple[str, ...]:
        """The checks that shut the gate, each with its model."""
        return tuple(f"{name}: {c}" for name, report in self.models.items() for c in report.failed)

    def lines(self) -> list[str]:
        """The checks of each model under its name, and the gate."""
        found = [
            line
            for name, report in self.models.items()
            for line in (name, *report.lines()[:-1], "")
        ]
        return [*found, self.verdict()]

    def verdict(self) -> str:
        """The gate in one line: open for which models, or shut by which checks."""
        if self.passed:
            return f"gate open: {', '.join(self.models)}"
        return f"gate SHUT by {'; '.join(self.failed)}"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all records and fingerprints as JSON."""
        record = {"passed": self.passed, "failed": self.failed, **dataclasses.asdict(self)}
        return write_json(record, path)


def gate(
    name: str,
    *,
    prompt: str | None = None,
    batch: int = 8,
    device: str | torch.device = "cpu",
    references: tuple[str, ...] = REFERENCES,
    quiet: bool = True,
) -> GateReport:
    """Run the preflight of the reference models and of `name`, to which alone `prompt` is given."""
    # The target first: a name that cannot be loaded is refused before anything runs.
    target = load(name, device=device)
    reports = {}
    for each in dict.fromkeys((*references, name)):
        model, tokenizer = target if each == name else load(each, device=device)
        given = prompt if each == name else None
        reports[each] = preflight(
            model, tokenizer, prompt=given, batch=batch, quiet=quiet, title=each
        )
    return GateReport(reports)
