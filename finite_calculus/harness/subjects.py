"""What a study runs on: a native model behind its gate, or nothing.

A study without a subject makes what it needs from its settings: the regression learner trains its own.
"""

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from finite_calculus.harness.directory import PREFLIGHT
from finite_calculus.harness.errors import GateShutError, StoreError
from finite_calculus.harness.settings import ModelSettings, StudySettings
from finite_calculus.provenance.files import read_json, replace_file

if TYPE_CHECKING:
    from finite_calculus.models import Instrument

LOGGER = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False)
class ModelSubject:
    """An attached native model; `instrument` captures, predicts and executes."""

    instrument: "Instrument"
    optional_tokenizer: Any

    @property
    def tokenizer(self) -> Any:
        """The model's tokenizer; an error where it has none, since token ids alone would work."""
        from finite_calculus.checkpoints import require_tokenizer

        return require_tokenizer(self.model, self.optional_tokenizer)

    @property
    def model(self) -> Any:
        """The model itself."""
        return self.instrument.model

    @property
    def layers(self) -> int:
        """How deep the model is."""
        return int(self.model.config.get_text_config(decoder=True).num_hidden_layers)

    @property
    def context(self) -> int:
        """How many tokens the model takes."""
        config = self.model.config.get_text_config(decoder=True)
        return int(config.max_position_embeddings)

    def describe(self) -> dict[str, str]:
        """Device, precision, threads and the hashes of weights and configuration."""
        import torch

        from native_checks.fingerprint import fingerprint

        # Which code counts is the study's affair; a preflight hashes all of it.
        described = {k: v for k, v in fingerprint(self.model).items() if k != "sources"}
        # Kernels are chosen by what the processor can do, and round differently.
        kernels = torch.backends.cpu.get_cpu_capability()
        return {**described, "tokenizers": version("tokenizers"), "kernels": kernels}

    def gate_is_open(self, out: Path, run: str) -> bool:
        """Whether this same run saved a preflight that passed."""
        target = out / PREFLIGHT
        return target.exists() and _saved_open(target, run)

    def pass_gate(self, out: Path, run: str, prompt: tuple[int, ...] | None) -> None:
        """Run the preflight, unless it was saved open by this same run; a shut gate stops everything."""
        from native_checks.preflight import preflight

        if self.gate_is_open(out, run):
            return
        target = out / PREFLIGHT
        report = preflight(self.model, self.optional_tokenizer, prompt=prompt)
        content = {"run": run, **dataclasses.asdict(report)}
        replace_file(target, (json.dumps(content, indent=1, ensure_ascii=False) + "\n").encode())
        LOGGER.info("preflight: %d checks, %s", len(report.checks), report.lines()[-1])
        if not report.passed:
            raise GateShutError(
                f"The gate is shut by {', '.join(report.failed)}; nothing was run. "
                f"See {PREFLIGHT} for the figures."
            )


@dataclass(frozen=True)
class NoSubject:
    """A study that brings everything itself."""

    layers: None = None

    def describe(self) -> dict[str, str]:
        """How the processor computes: all that such a study depends on beside its code."""
        import torch

        return {
            "threads": str(torch.get_num_threads()),
            "kernels": torch.backends.cpu.get_cpu_capability(),
        }

    def gate_is_open(self, out: Path, run: str) -> bool:
        """There is no gate."""
        return True

    def pass_gate(self, out: Path, run: str, prompt: tuple[int, ...] | None) -> None:
        """There is no model to check."""


Subject = ModelSubject | NoSubject


@contextmanager
def open_subject(
    settings: StudySettings, *, device: str = "cpu", loaded: tuple[Any, Any] | None = None
) -> Iterator[Subject]:
    """The subject of a run; `loaded` is a model with its tokenizer that is there already."""
    if not isinstance(settings, ModelSettings):
        yield NoSubject()
        return
    from finite_calculus.checkpoints import load
    from finite_calculus.models import attach

    if loaded is None:
        loaded = load(settings.model, dtype=settings.dtype, device=device)
    model, tokenizer = loaded
    computed = str(model.dtype).removeprefix("torch.")
    if computed != settings.dtype:
        raise ValueError(
            f"`loaded` must compute in what the settings say, {settings.dtype}; it computes in {computed}. "
            f"Load it with dtype={settings.dtype!r}, or set dtype={computed!r}."
        )
    with attach(model, tokenizer=tokenizer) as instrument:
        yield ModelSubject(instrument, tokenizer)


def gate_state(saved: Mapping[str, Any]) -> tuple[int, list[str]]:
    """How many checks a saved preflight holds, and the names of those that failed, by word or by figure."""
    checks = saved["checks"]
    return len(checks), [str(check["name"]) for check in checks if not _passed(check)]


def _passed(check: Mapping[str, Any]) -> bool:
    """Whether a check says that it passed and its figure does, too."""
    figure, bound = float(check["figure"]), float(check["bound"])
    within = figure >= bound if check.get("at_least") else figure <= bound
    return check["passed"] is True and within


def _saved_open(target: Path, run: str) -> bool:
    try:
        saved = read_json(target)
        number, failed = gate_state(saved)
        owner = saved["run"]
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(f"{target.name} is damaged; move it away and run again.") from None
    return owner == run and number > 0 and not failed
