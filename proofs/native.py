"""Which native checks of the preflight stand behind an entry, and what the newest record of them says.

The checks run on a model, with transformers, through `finite-calculus preflight`; the ledger runs without
one and reads what `results/preflight/` holds. A check of a record counts for the code that made it alone:
the record has, by module of checks, the hash of all code that the module reaches, and that hash is formed
again. A test runs the checks and sees that each calls a function of every entry that it is named for.
"""

import functools
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from finite_calculus.provenance.digests import digest
from finite_calculus.provenance.sources import source_digests

RECORDS = Path(__file__).parent.parent / "results" / "preflight"

# By module and function of native_checks.
CHECKS: Mapping[str, tuple[str, ...]] = {
    "local.outputs_replay": ("eq:attention",),
    "local.writes_replay": ("eq:attention",),
    "local.predictions_match_execution": (
        "main:response", "eq:groupdeletion", "unlabelled:quantiser",
    ),
    "local.effective_weights_reconstruct": (
        "eq:identity", "main:effective", "eq:features", "eq:gauge",
    ),
    "local.score_increments_match": ("main:central", "main:rotation", "main:score", "eq:rotation"),
    "gradients.predictor_matches_differences": (
        "main:scorecandidate", "eq:marginprediction", "eq:jointpredictor", "eq:jointdownstreamfactorial",
    ),
    "joint.parts_match_cells": (
        "main:joint", "eq:kvcomponents", "eq:kvfactorial", "eq:atplinear", "eq:rhoremainder",
    ),
    "joint.weights_renormalise": ("main:normalise",),
    "joint.leading_term_matches_cells": ("eq:quadraticinteraction",),
    "joint.certificates_hold": ("main:certificate",),
    "joint.sparse_groups_match_cells": ("main:sparse",),
    "joint.matrices_match_cells": ("eq:jointmatrix",),
    "queries.projections_match": ("eq:projections", "eq:features"),
    "queries.gradient_steps_reconstruct": ("eq:gradient", "main:effective"),
    "queries.anchors_leave_their_residual": ("eq:tokenerror", "eq:bound"),
    "queries.requested_ratios_are_native": ("main:querycontrol", "eq:querylogodds"),
    "positions.jacobian_and_remainders": (
        "eq:phasejacobian", "main:tworemainders", "eq:rhoremainder",
    ),
    "positions.bands_match_cells": (
        "eq:bandinteraction", "unlabelled:band-additivity", "eq:projectedinteraction",
        "eq:interactionmetric", "needed:band-closed-form",
    ),
    "positions.mixed_derivative_matches_cells": ("eq:softmaxmixed",),
    "positions.phase_and_context_match_cells": ("eq:phasecontent", "unlabelled:signed-projections"),
    "entries.own_key_carries_its_mass": ("unlabelled:self-mass",),
    "entries.deletions_match_control": ("unlabelled:deletion-jacobian", "eq:groupdeletion"),
    "entries.restorations_match_cells": (
        "eq:singlerepair", "eq:repairbenefit", "eq:repairmetric", "unlabelled:repair-sigmoid",
    ),
    "entries.expansions_match_cells": ("unlabelled:repair-expansion",),
}  # fmt: skip


@dataclass(frozen=True)
class NativeRecord:
    """What a preflight found on one model, by check of the code at hand: the worst over its bound."""

    model: str
    made: str
    worst: Mapping[str, float]


@dataclass(frozen=True)
class NativeStanding:
    """The native checks of an entry, and the newest record in which all of them compared something."""

    checks: tuple[str, ...]
    record: str | None = None
    worst_over_bound: float | None = None

    @property
    def status(self) -> str:
        """Whether there are checks, whether a record of this code holds them, and whether they held."""
        if not self.checks:
            return "none"
        if self.worst_over_bound is None:
            return "not checked"
        return "checked" if self.worst_over_bound <= 1 else "failed"


def native_checks_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """The checks, as module.function of native_checks, of an entry with these names."""
    return tuple(check for check, labels in CHECKS.items() if set(labels) & set(names))


def standing(names: tuple[str, ...], records: Iterable[NativeRecord]) -> NativeStanding:
    """The checks of an entry with the newest record that has them all; records come newest first."""
    checks = native_checks_of(names)
    for record in records if checks else ():
        if all(check in record.worst for check in checks):
            worst = max((record.worst[check] for check in checks), key=_nan_first)
            return NativeStanding(checks, record.model, worst)
    return NativeStanding(checks)


def read_records(folder: Path = RECORDS) -> tuple[NativeRecord, ...]:
    """The records with checks of the code at hand, newest first; checks of other code are left out."""
    records = [
        record
        for file in sorted(folder.glob("*.json"))
        for record in _records(json.loads(file.read_text(encoding="utf-8")))
    ]
    return tuple(sorted(records, key=lambda record: record.made, reverse=True))


def _records(data: Mapping[str, Any]) -> Iterator[NativeRecord]:
    code = data.get("code", {})
    current = {
        name.rpartition(".")[2] for name, made_of in code.items() if code_hash(name) == made_of
    }
    # The model that was asked for stands last, after the tiny ones that every gate runs first.
    for model, report in reversed(list(data.get("models", {}).items())):
        # Half precision rounds so much that its figures say little of a formula.
        if report.get("fingerprint", {}).get("dtype", "torch.float32") != "torch.float32":
            continue
        worst: dict[str, float] = {}
        for check in report["checks"]:
            name = check.get("check", "")
            if name.partition(".")[0] in current and check["compared"] != 0:
                worst[name] = max(_over_bound(check), worst.get(name, 0.0), key=_nan_first)
        if worst:
            yield NativeRecord(model, data["made"], worst)


@functools.cache
def code_hash(module: str) -> str:
    """Hash of the code that a module reaches as it is now; that of no code if it is not there."""
    try:
        return digest(source_digests({module: None}))
    except (ValueError, ModuleNotFoundError):
        return ""


def _over_bound(check: Mapping[str, Any]) -> float:
    """The figure in units of its bound, above 1 where the check failed."""
    figure, bound = check["figure"], check["bound"]
    if check["at_least"]:
        figure, bound = bound, figure
    ratio = figure / bound if bound else (math.inf if figure else 0.0)
    return ratio if check["passed"] else max(ratio, math.nextafter(1.0, 2.0))


def _nan_first(number: float) -> float:
    return math.inf if math.isnan(number) else number
