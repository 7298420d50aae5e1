"""Comparisons of functions of a head: φ, rotations, effective weights, projections and small learners."""

from collections.abc import Callable

import finite_calculus as fc
from proofs.numeric import head_cases
from proofs.numeric.cases import Case
from proofs.numeric.comparison import ReferenceComparison
from proofs.references import effective as of_affine, rotary as of_rotary


def _planes(case: Case) -> fc.Rotary:
    width = case["vector"].shape[-1]
    return fc.Rotary(case["frequencies"], width, case["layout"])


def _on_vector(function: Callable, *, band: bool = True) -> Callable:
    def compute(case: Case):
        extra = {"band": case["band"]} if band else {}
        return function(_planes(case), case["vector"], case["shift"], **extra)

    return compute


def _on_keys(function: Callable) -> Callable:
    def compute(case: Case):
        query, shift = case["query"].unsqueeze(-2), case["shift"].unsqueeze(-1)
        options = {"band": case["band"], "scaling": case["scaling"]}
        return function(_planes(case), query, case["keys"], shift, **options)

    return compute


def _features(case: Case):
    return fc.affine_features(
        _planes(case),
        case["query_weight"],
        case["query_bias"],
        case["keys"],
        case["position"],
        scaling=case["scaling"],
    )


def _features_reference(num, **case):
    everything = [True] * len(case["frequencies"])
    return of_affine.affine_features(num, **{**case, "band": everything})


def _weights(case: Case, *, gauge: bool = True) -> fc.EffectiveWeights:
    origin = case["gauge"] if gauge else None
    return fc.effective_weights(
        case["query_input"], case["features"], case["values"], gauge=origin, mask=case["mask"]
    )


def _anchor_residual(case: Case):
    anchor = {**case, "query_input": case["anchor_input"]}
    return fc.anchor_residual(_weights(case, gauge=False), _weights(anchor, gauge=False))


def _cells(case: Case) -> fc.PhaseContext:
    names = ("original", "moved", "rewritten", "reordered")
    return fc.phase_context(*[case[name] for name in names])


ROTARY = [
    ReferenceComparison(
        "phi1", lambda case: fc.phi1(case["x"]), of_affine.phi1, head_cases.arguments
    ),
    ReferenceComparison(
        "phi2", lambda case: fc.phi2(case["x"]), of_affine.phi2, head_cases.arguments
    ),
    *(
        ReferenceComparison(
            name, _on_vector(getattr(fc, name)), getattr(of_rotary, name), head_cases.rotary
        )
        for name in ("rotate", "displacement", "tangent", "phi1_rotary")
    ),
    *(
        ReferenceComparison(
            name,
            _on_vector(getattr(fc, name), band=False),
            getattr(of_rotary, name),
            head_cases.rotary,
        )
        for name in ("chord_norm", "tangent_norm")
    ),
    *(
        ReferenceComparison(
            name, _on_keys(getattr(fc, name)), getattr(of_rotary, name), head_cases.rotary
        )
        for name in ("key_shift_scores", "key_shift_scores_linear", "key_shift_scores_remainder")
    ),
]

AFFINE = [
    ReferenceComparison("affine_features", _features, _features_reference, head_cases.projected),
    ReferenceComparison(
        "EffectiveWeights.output",
        lambda case: _weights(case).output,
        of_affine.output,
        head_cases.affine,
    ),
    ReferenceComparison(
        "EffectiveWeights.coefficients",
        lambda case: _weights(case).coefficients,
        of_affine.coefficients,
        head_cases.affine,
    ),
    ReferenceComparison(
        "effective_weights",
        lambda case: _weights(case).matrix,
        of_affine.matrix,
        head_cases.affine,
    ),
    ReferenceComparison(
        "anchor_residual", _anchor_residual, of_affine.anchor_residual, head_cases.affine
    ),
    ReferenceComparison(
        "curvature",
        lambda case: fc.curvature(case["query_input"], case["features"], case["reference"]),
        of_affine.curvature,
        head_cases.affine,
    ),
    ReferenceComparison(
        "log_ratios",
        lambda case: fc.log_ratios(case["query_input"], case["features"], case["pairs"]),
        of_affine.log_ratios,
        head_cases.affine,
    ),
    ReferenceComparison(
        "project",
        lambda case: fc.project(case["head_writes"], case["output_projection"]),
        of_affine.project,
        head_cases.projected,
    ),
    ReferenceComparison(
        "contract",
        lambda case: fc.contract(case["head_writes"], case["output_projection"], case["gradient"]),
        of_affine.contract,
        head_cases.projected,
    ),
    ReferenceComparison(
        "restoration_benefit",
        lambda case: fc.restoration_benefit(case["error"], case["change"]),
        of_affine.restoration_benefit,
        head_cases.projected,
    ),
    ReferenceComparison(
        "head_gradient",
        lambda case: fc.head_gradient(case["output_projection"], case["gradient"]),
        of_affine.head_gradient,
        head_cases.projections,
        batched=False,
    ),
    ReferenceComparison(
        "generator",
        lambda case: fc.generator(_planes(case)),
        of_affine.generator,
        head_cases.generators,
        batched=False,
    ),
    ReferenceComparison(
        "relative_features",
        lambda case: fc.relative_features(case["features"], case["reference"]),
        of_affine.relative_features,
        head_cases.affine,
    ),
    ReferenceComparison(
        "reference_key_gauge",
        lambda case: fc.reference_key_gauge(case["features"], case["reference"]),
        of_affine.reference_key_gauge,
        head_cases.affine,
    ),
    ReferenceComparison(
        "mean_key_gauge",
        lambda case: fc.mean_key_gauge(case["features"], mask=case["mask"]),
        of_affine.mean_key_gauge,
        head_cases.affine,
    ),
    ReferenceComparison(
        "key_shift_gauge",
        lambda case: fc.key_shift_gauge(case["projection"], case["key_shift"]),
        of_affine.key_shift_gauge,
        head_cases.affine,
    ),
    ReferenceComparison(
        "residual_write",
        lambda case: fc.residual_write(case["residual"], _weights(case), case["head_projection"]),
        of_affine.residual_write,
        head_cases.affine,
    ),
    ReferenceComparison(
        "augment",
        lambda case: fc.augment(case["query_input"]),
        of_affine.augment,
        head_cases.affine,
    ),
    ReferenceComparison("phase_context", _cells, of_affine.phase_context, head_cases.cells),
    ReferenceComparison(
        "signed_projections",
        lambda case: fc.signed_projections(_cells(case)),
        of_affine.signed_projections,
        head_cases.cells,
        batched=False,
    ),
    ReferenceComparison(
        "regression_step",
        lambda case: fc.regression_step(case["inputs"], case["targets"]),
        of_affine.regression_step,
        head_cases.episode,
    ),
    ReferenceComparison(
        "aligned_rate",
        lambda case: fc.aligned_rate(case["predictions"], case["reference"]),
        of_affine.aligned_rate,
        head_cases.episode,
        batched=False,
    ),
]
