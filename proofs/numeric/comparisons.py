"""The comparisons: for every public function of the core, its reference and its inputs."""

from collections.abc import Callable

import finite_calculus as fc
from proofs.numeric import cases, head_cases
from proofs.numeric.cases import Case
from proofs.numeric.comparison import Comparison
from proofs.references import (
    bank as of_bank,
    effective as of_affine,
    restoration as of_cache,
    rotary as of_rotary,
)


def _frozen(case: Case) -> fc.Readout:
    return fc.freeze(case["scores"], case["values"], mask=case["mask"])


def _on_bank(function: Callable, *names: str) -> Callable:
    """Call `function(readout, …)` on a bank case."""
    return lambda case: function(_frozen(case), *[case[name] for name in names])


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
        given = {"band": case["band"], "scaling": case["scaling"]}
        return function(_planes(case), query, case["keys"], shift, **given)

    return compute


def _on_groups(method: str, *names: str) -> Callable:
    def compute(case: Case):
        prepared = fc.prepare(_frozen(case), case["groups"])
        return getattr(prepared, method)(*[case[name] for name in names])

    return compute


def _on_spans(method: str, *names: str) -> Callable:
    def compute(case: Case):
        bank = fc.read_bank(case["scores"], case["values"])
        prepared = fc.prepare_spans(bank, case["starts"], case["members"])
        return getattr(prepared, method)(*[case[name] for name in names])

    return compute


def _on_singles(method: str, *names: str) -> Callable:
    def compute(case: Case):
        return getattr(fc.prepare_singles(_frozen(case)), method)(*[case[name] for name in names])

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
    chosen = case["gauge"] if gauge else None
    return fc.effective_weights(
        case["query_input"], case["features"], case["values"], gauge=chosen, mask=case["mask"]
    )


def _anchor_residual(case: Case):
    anchor = {**case, "query_input": case["anchor_input"]}
    return fc.anchor_residual(_weights(case, gauge=False), _weights(anchor, gauge=False))


def _cells(case: Case) -> fc.PhaseContext:
    names = ("original", "moved", "rewritten", "reordered")
    return fc.phase_context(*[case[name] for name in names])


def _restoration_scores(method: str) -> Callable:
    def compute(case: Case):
        names = ("scores", "values", "original_scores", "original_values")
        cache = fc.CachePair(*[case[name] for name in names])
        return fc.restoration_scores(cache, case["output_projection"], method)

    return compute


def _removed(case: Case) -> Case:
    """The groups of a sparse case as masks of deleted keys, for the deletion reference."""
    keys = range(len(case["scores"]))
    return {**case, "removed": [[key in group for key in keys] for group in case["groups"]]}


def _each_removed(case: Case) -> Case:
    """Every key deleted on its own."""
    keys = range(len(case["scores"]))
    return {**case, "removed": [[key == gone for key in keys] for gone in keys]}


def _restorations(case: Case):
    return fc.restoration_response(_frozen(case), case["score_delta"], case["value_delta"])


_BANK: dict[str, tuple[str, ...]] = {
    "log_ratio": ("score_delta",),
    "log_normaliser": ("score_delta",),
    "probability_change": ("score_delta",),
    "finite_response": ("score_delta", "value_delta"),
    "key_response": ("score_delta",),
    "value_response": ("value_delta",),
    "interaction": ("score_delta", "value_delta"),
    "quadratic_interaction": ("score_delta", "value_delta"),
    "linear_response": ("score_delta",),
    "softmax_remainder": ("score_delta",),
    "remainder_weights": ("score_delta",),
    "decompose": ("score_delta", "value_delta"),
    "divergence": ("score_delta",),
    "total_variation": ("score_delta",),
    "positional_jacobian": ("linear_delta",),
    "band_interaction": ("score_delta", "second_delta"),
    "mixed_second_derivative": ("score_delta", "second_delta"),
}


def _comparisons() -> list[Comparison]:
    found = [
        Comparison(name, _on_bank(getattr(fc, name), *names), getattr(of_bank, name), cases.bank)
        for name, names in _BANK.items()
    ]
    found += [
        Comparison("freeze", lambda case: _frozen(case).output, of_bank.output, cases.bank),
        Comparison(
            "rotary_remainder",
            _on_bank(fc.rotary_remainder, "linear_delta"),
            of_bank.positional_jacobian,
            cases.bank,
        ),
        Comparison(
            "deletion_response",
            _on_bank(fc.deletion_response, "removed"),
            of_bank.deletion_response,
            cases.deletions,
        ),
        Comparison(
            "deletion_jacobian",
            _on_bank(fc.deletion_jacobian, "removed"),
            of_bank.deletion_jacobian,
            cases.deletions,
        ),
        Comparison(
            "restoration_response", _restorations, of_bank.restoration_response, cases.full_bank
        ),
        Comparison(
            "PreparedGroups.response",
            _on_groups("response", "group_scores", "group_values"),
            of_bank.sparse_response,
            cases.groups,
        ),
        Comparison(
            "PreparedGroups.divergence",
            _on_groups("divergence", "group_scores"),
            of_bank.sparse_divergence,
            cases.groups,
        ),
        Comparison(
            "PreparedGroups.total_variation",
            _on_groups("total_variation", "group_scores"),
            of_bank.sparse_total_variation,
            cases.groups,
        ),
        Comparison(
            "PreparedGroups.deletion",
            _on_groups("deletion"),
            lambda num, **case: of_bank.deletion_response(num, **_removed(case)),
            cases.proper_groups,
        ),
        Comparison(
            "Bank.output",
            lambda case: fc.read_bank(case["scores"], case["values"]).output,
            of_bank.output,
            cases.full_bank,
        ),
        Comparison(
            "prepare_spans.response",
            _on_spans("response", "group_scores", "group_values"),
            of_bank.sparse_response,
            cases.spans,
        ),
        Comparison(
            "prepare_spans.deletion",
            _on_spans("deletion"),
            lambda num, **case: of_bank.deletion_response(num, **_removed(case)),
            cases.proper_spans,
        ),
        Comparison(
            "prepare_singles.response",
            _on_singles("response", "score_delta", "value_delta"),
            of_bank.restoration_response,
            cases.full_bank,
        ),
        Comparison(
            "prepare_singles.deletion",
            _on_singles("deletion"),
            lambda num, **case: of_bank.deletion_response(num, **_each_removed(case)),
            cases.proper_groups,
        ),
        Comparison("phi1", lambda case: fc.phi1(case["x"]), of_affine.phi1, head_cases.arguments),
        Comparison("phi2", lambda case: fc.phi2(case["x"]), of_affine.phi2, head_cases.arguments),
    ]
    for name in ("rotate", "displacement", "tangent", "phi1_rotary"):
        function, reference = getattr(fc, name), getattr(of_rotary, name)
        found.append(Comparison(name, _on_vector(function), reference, head_cases.rotary))
    for name in ("chord_norm", "tangent_norm"):
        function, reference = getattr(fc, name), getattr(of_rotary, name)
        found.append(
            Comparison(name, _on_vector(function, band=False), reference, head_cases.rotary)
        )
    for name in ("key_shift_scores", "key_shift_scores_linear", "key_shift_scores_remainder"):
        function, reference = getattr(fc, name), getattr(of_rotary, name)
        found.append(Comparison(name, _on_keys(function), reference, head_cases.rotary))
    for name in ("exact", "first_order", "second_order", "attention", "value_norm", "fisher"):
        compute, reference = _restoration_scores(name.replace("_", "-")), getattr(of_cache, name)
        label = f"restoration_scores.{name}"
        found.append(Comparison(label, compute, reference, cases.corrupted_cache))
    return found + _affine_comparisons()


def _affine_comparisons() -> list[Comparison]:
    return [
        Comparison("affine_features", _features, _features_reference, head_cases.projected),
        Comparison(
            "EffectiveWeights.output",
            lambda case: _weights(case).output,
            of_affine.output,
            head_cases.affine,
        ),
        Comparison(
            "EffectiveWeights.coefficients",
            lambda case: _weights(case).coefficients,
            of_affine.coefficients,
            head_cases.affine,
        ),
        Comparison(
            "effective_weights",
            lambda case: _weights(case).matrix,
            of_affine.matrix,
            head_cases.affine,
        ),
        Comparison(
            "anchor_residual", _anchor_residual, of_affine.anchor_residual, head_cases.affine
        ),
        Comparison(
            "curvature",
            lambda case: fc.curvature(case["query_input"], case["features"], case["reference"]),
            of_affine.curvature,
            head_cases.affine,
        ),
        Comparison(
            "log_ratios",
            lambda case: fc.log_ratios(case["query_input"], case["features"], case["pairs"]),
            of_affine.log_ratios,
            head_cases.affine,
        ),
        Comparison(
            "project",
            lambda case: fc.project(case["head_writes"], case["output_projection"]),
            of_affine.project,
            head_cases.projected,
        ),
        Comparison(
            "contract",
            lambda case: fc.contract(
                case["head_writes"], case["output_projection"], case["gradient"]
            ),
            of_affine.contract,
            head_cases.projected,
        ),
        Comparison(
            "restoration_benefit",
            lambda case: fc.restoration_benefit(case["error"], case["change"]),
            of_affine.restoration_benefit,
            head_cases.projected,
        ),
        Comparison(
            "head_gradient",
            lambda case: fc.head_gradient(case["output_projection"], case["gradient"]),
            of_affine.head_gradient,
            head_cases.projections,
            batched=False,
        ),
        Comparison(
            "generator",
            lambda case: fc.generator(_planes(case)),
            of_affine.generator,
            head_cases.generators,
            batched=False,
        ),
        Comparison(
            "relative_features",
            lambda case: fc.relative_features(case["features"], case["reference"]),
            of_affine.relative_features,
            head_cases.affine,
        ),
        Comparison(
            "reference_key_gauge",
            lambda case: fc.reference_key_gauge(case["features"], case["reference"]),
            of_affine.reference_key_gauge,
            head_cases.affine,
        ),
        Comparison(
            "mean_key_gauge",
            lambda case: fc.mean_key_gauge(case["features"], mask=case["mask"]),
            of_affine.mean_key_gauge,
            head_cases.affine,
        ),
        Comparison(
            "key_shift_gauge",
            lambda case: fc.key_shift_gauge(case["projection"], case["key_shift"]),
            of_affine.key_shift_gauge,
            head_cases.affine,
        ),
        Comparison(
            "residual_write",
            lambda case: fc.residual_write(
                case["residual"], _weights(case), case["head_projection"]
            ),
            of_affine.residual_write,
            head_cases.affine,
        ),
        Comparison(
            "augment",
            lambda case: fc.augment(case["query_input"]),
            of_affine.augment,
            head_cases.affine,
        ),
        Comparison("phase_context", _cells, of_affine.phase_context, head_cases.cells),
        Comparison(
            "signed_projections",
            lambda case: fc.signed_projections(_cells(case)),
            of_affine.signed_projections,
            head_cases.cells,
            batched=False,
        ),
        Comparison(
            "regression_step",
            lambda case: fc.regression_step(case["inputs"], case["targets"]),
            of_affine.regression_step,
            head_cases.episode,
        ),
        Comparison(
            "aligned_rate",
            lambda case: fc.aligned_rate(case["predictions"], case["reference"]),
            of_affine.aligned_rate,
            head_cases.episode,
            batched=False,
        ),
    ]


COMPARISONS: dict[str, Comparison] = {found.function: found for found in _comparisons()}
