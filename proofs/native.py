"""Which native check of the preflight stands behind an entry, by label.

The checks run on a model, with transformers, through `finite-calculus preflight`; the ledger names
them and reports them as not checked, because it runs without a model.
"""

_RESPONSES = (
    "main:response", "main:joint", "main:sparse", "main:score", "main:normalise", "eq:groupdeletion",
    "eq:kvfactorial", "eq:singlerepair", "eq:jointpredictor", "unlabelled:quantiser",
)  # fmt: skip
_EFFECTIVE = (
    "eq:identity", "main:effective", "eq:features", "eq:gauge", "eq:gradient", "eq:jointmatrix",
)  # fmt: skip
_MARGINS = ("main:scorecandidate", "eq:marginprediction", "eq:jointdownstreamfactorial")
_ROTATIONS = ("main:central", "main:rotation", "main:score", "eq:rotation")

_CHECKS = {
    "local.predictions_match_execution": _RESPONSES,
    "local.effective_weights_reconstruct": _EFFECTIVE,
    "local.score_increments_match": _ROTATIONS,
    "local.outputs_replay": ("eq:attention", "eq:projections"),
    "local.writes_replay": ("eq:attention",),
    "local.gradients_relate": _MARGINS,
    "gradients.gradient_matches_differences": _MARGINS,
}


def native_checks_of(names: tuple[str, ...]) -> tuple[str, ...]:
    """The checks, as module.function of native_checks, of an entry with these names."""
    return tuple(check for check, labels in _CHECKS.items() if set(labels) & set(names))


def all_native() -> dict[str, tuple[str, ...]]:
    """Every named check with the labels it stands behind."""
    return dict(_CHECKS)
