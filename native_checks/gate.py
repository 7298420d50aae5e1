"""The gate of any model: tiny random Qwen2 and Llama first, then the model itself.

The tiny models run the same checks without any download and in a moment. If one of them fails, the
instrument or the installation is at fault and not the model.
"""

import dataclasses
import os
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import torch

from finite_calculus.checkpoints import load, origin_of, require_tokenizer
from native_checks.fingerprint import source_hash
from native_checks.preflight import CHECKS, PreflightReport, preflight
from native_checks.records import warning_words, write_json

REFERENCES = ("tiny-qwen2", "tiny-llama")


@dataclass(frozen=True)
class GateReport:
    """Reports in the order in which they were made, by name, `base (folder)` or `owner/name@commit`."""

    models: dict[str, PreflightReport]

    @property
    def passed(self) -> bool:
        """Whether every check of every model passed."""
        return all(report.passed for report in self.models.values())

    @property
    def failed(self) -> tuple[str, ...]:
        """The checks that shut the gate, each with its model."""
        return tuple(f"{name}: {c}" for name, report in self.models.items() for c in report.failed)

    @property
    def warnings(self) -> int:
        """Entries of all models beyond a probable bound, which leave the gate open."""
        return sum(report.warnings for report in self.models.values())

    def reasons(self) -> list[str]:
        """Why the gate is shut: each check that failed, in the words of its record."""
        return [
            f"{name}: {check.name}: {check.reason}"
            for name, report in self.models.items()
            for check in report.checks
            if not check.passed
        ]

    def lines(self) -> list[str]:
        """The checks of each model under its name, and the gate."""
        lines = [
            line
            for name, report in self.models.items()
            for line in (name, *report.lines()[:-1], "")
        ]
        return [*lines, self.verdict()]

    def verdict(self) -> str:
        """The gate in one line: open for which models, or shut by which checks."""
        warned = warning_words(self.warnings)
        if self.passed:
            return f"gate open: {', '.join(self.models)}{warned}"
        return f"gate SHUT by {'; '.join(self.failed)}{warned}"

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write all records and fingerprints as JSON, with the time and the code that the checks reach."""
        record = {
            "made": datetime.now(UTC).isoformat(timespec="seconds"),
            "code": code_of_checks(),
            "passed": self.passed,
            "failed": self.failed,
            "warnings": self.warnings,
            **dataclasses.asdict(self),
        }
        return write_json(record, path)


@cache
def code_of_checks() -> dict[str, str]:
    """By module of checks, the hash of the code that it reaches: nothing else can change its figures.

    What loads a model is not part of it: the fingerprint has the hashes of the weights and configuration.
    """
    modules = sorted({check.__module__ for check in CHECKS})
    return {module: source_hash([module]) for module in modules}


def gate(
    spec: str,
    *,
    prompt: str | None = None,
    batch: int = 8,
    dtype: str | torch.dtype = torch.float32,
    device: str | torch.device = "cpu",
    references: tuple[str, ...] = REFERENCES,
    quiet: bool = True,
) -> GateReport:
    """Run the preflight of the reference models and of `spec`, to which alone `prompt` is given.

    `spec` is what `checkpoints.load` takes: a known name, a folder or a hub id.
    """
    # The target first: what cannot be loaded is refused before anything runs.
    target = load(spec, dtype=dtype, device=device)
    origin = origin_of(target[0])
    label = spec if origin is None else origin.label
    if prompt is not None:
        require_tokenizer(*target)
    reports = {}
    for name in dict.fromkeys((*references, label)):
        model, tokenizer = target if name == label else load(name, dtype=dtype, device=device)
        text = prompt if name == label else None
        reports[name] = preflight(
            model, tokenizer, prompt=text, batch=batch, quiet=quiet, title=name
        )
    return GateReport(reports)
