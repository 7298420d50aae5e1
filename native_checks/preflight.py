"""The gate: every native check on one model, with a fingerprint of what it was run with.

A check that raises shuts the gate like one that fails, and the report says which.
"""

import dataclasses
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from finite_calculus.models import attach
from finite_calculus.models.margins import prompt_ids
from finite_calculus.models.precision import precision_of
from finite_calculus.models.support import find_sites
from finite_calculus.models.words import progress_bar
from native_checks import (
    batches,
    entries,
    gradients,
    joint,
    local,
    positions,
    products,
    queries,
    structure,
    sums,
)
from native_checks.bench import Bench
from native_checks.fingerprint import fingerprint
from native_checks.records import (
    GateCheck,
    ceilings_waived,
    counted,
    refused,
    warning_words,
    write_json,
)

# In this order: what is installed, then what is local, then what is executed.
CHECKS: tuple[Callable[[Bench], GateCheck | tuple[GateCheck, ...]], ...] = (
    structure.attention_is_installed,
    structure.no_foreign_patches,
    structure.attention_is_causal,
    structure.arithmetic_is_stated,
    products.products_are_as_probed,
    sums.sums_are_float32,
    sums.softmax_is_float32,
    sums.algebra_is_float64,
    local.outputs_replay,
    local.writes_replay,
    local.effective_weights_reconstruct,
    local.score_increments_match,
    local.gradients_relate,
    gradients.gradient_matches_differences,
    gradients.predictor_matches_differences,
    joint.replays_are_native,
    joint.parts_match_cells,
    joint.weights_renormalise,
    joint.leading_term_matches_cells,
    joint.certificates_hold,
    joint.sparse_groups_match_cells,
    joint.matrices_match_cells,
    queries.projections_match,
    queries.gradient_steps_reconstruct,
    queries.anchors_leave_their_residual,
    queries.requested_ratios_are_native,
    positions.jacobian_and_remainders,
    positions.bands_match_cells,
    positions.mixed_derivative_matches_cells,
    positions.phase_and_context_match_cells,
    entries.own_key_carries_its_mass,
    entries.deletions_match_control,
    entries.restorations_match_cells,
    entries.expansions_match_cells,
    batches.full_matches_cached,
    batches.single_matches_batch,
    batches.rows_are_isolated,
    batches.prefix_is_untouched,
    batches.reruns_are_identical,
    batches.paths_agree,
    batches.batch_sizes_agree,
    batches.idle_edits_change_nothing,
    batches.live_edits_change_something,
    local.predictions_match_execution,
    batches.shared_path_agrees,
    local.predictions_match_shared_path,
    local.several_queries_match_execution,
)
_TOKENS = 24


@dataclass(frozen=True)
class PreflightReport:
    """All checks of one model and the fingerprint of the run."""

    checks: tuple[GateCheck, ...]
    fingerprint: dict[str, str]

    @property
    def passed(self) -> bool:
        """Whether the gate is open: every check passed."""
        return all(check.passed for check in self.checks)

    @property
    def failed(self) -> tuple[str, ...]:
        """Names of the checks that shut the gate."""
        return tuple(check.name for check in self.checks if not check.passed)

    @property
    def warnings(self) -> int:
        """Entries beyond a probable bound, which leave the gate open."""
        return sum(check.warnings for check in self.checks)

    def lines(self) -> list[str]:
        """One line per check and one for the gate."""
        gate = "open" if self.passed else f"SHUT by {', '.join(self.failed)}"
        gate += warning_words(self.warnings)
        return [*(check.line() for check in self.checks), f"gate {gate}"]

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the records and the fingerprint as JSON."""
        return write_json(dataclasses.asdict(self), path)


def preflight(
    model: PreTrainedModel,
    tokenizer: Any = None,
    *,
    prompt: str | Sequence[int] | Tensor | None = None,
    batch: int = 8,
    quiet: bool = True,
    title: str = "preflight",
) -> PreflightReport:
    """Run every check on a model; `prompt` defaults to two dozen random tokens.

    The margin is that of the most likely next token against the least likely one, two logits that
    move apart: those of two likely tokens may move together and hide a difference. Never raises for
    what is wrong with the model: the report says it.
    """
    made_with = fingerprint(model)
    try:
        before = _state(model)
        with attach(model, tokenizer=tokenizer) as instrument:
            ids = _ids(model, tokenizer, prompt)
            with torch.no_grad():
                logits = model(input_ids=ids.unsqueeze(0), use_cache=False).logits[0, -1]
            bench = Bench(instrument, ids, int(logits.argmax()), int(logits.argmin()), batch)
            coarse = precision_of(model.dtype).half
            reason = "the paper states it for float32" if coarse else ""
            with ceilings_waived(reason):
                checks = run_checks(bench, quiet=quiet, title=title)
        after = _state(model)
    except Exception as error:
        return PreflightReport((refused("support", error),), made_with)
    changed = sum(a != b for a, b in zip(before, after, strict=True))
    restored = counted(
        "everything is restored", changed, "of implementation, functions, hooks and logits changed"
    )
    return PreflightReport((*checks, restored), made_with)


def run_checks(
    bench: Bench, *, quiet: bool = True, title: str = "preflight"
) -> tuple[GateCheck, ...]:
    """Every check in order; one that raises is recorded as failed under its function's name."""
    records: list[GateCheck] = []
    with progress_bar(len(CHECKS), quiet=quiet, title=title, unit="check") as progress:
        for check in CHECKS:
            try:
                result = check(bench)
            except Exception as error:
                result = refused(check.__name__.replace("_", " "), error)
            name = f"{check.__module__.rpartition('.')[2]}.{check.__name__}"
            results = result if isinstance(result, tuple) else (result,)
            records += (dataclasses.replace(record, check=name) for record in results)
            progress.update()
    return tuple(records)


def _ids(model: PreTrainedModel, tokenizer: Any, prompt: Any) -> Tensor:
    vocabulary = model.config.get_text_config(decoder=True).vocab_size
    if prompt is None:
        draw = torch.Generator().manual_seed(981)
        prompt = torch.randint(3, vocabulary, (_TOKENS,), generator=draw)
    ids = prompt_ids(prompt, vocabulary=vocabulary, tokenizer=tokenizer)
    return ids.to(next(model.parameters()).device)


def _state(model: PreTrainedModel) -> list[Any]:
    """What must be the same afterwards: implementation, functions, hooks, and the bits of logits."""
    sites = find_sites(model)
    ids = torch.arange(3, 11, device=next(model.parameters()).device).unsqueeze(0)
    with torch.no_grad():
        logits = model(input_ids=ids, use_cache=False).logits
    return [
        model.config._attn_implementation,
        [id(site.eager) for site in sites],
        [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
        [name for name, m in model.named_modules() if "forward" in vars(m)],
        logits.cpu().contiguous().view(torch.uint8).numpy().tobytes(),
    ]
