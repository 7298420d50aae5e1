"""Comparisons of functions of a bank: responses, deletions, restorations, sparse edits and caches."""

from collections.abc import Callable

import finite_calculus as fc
from proofs.numeric import cases
from proofs.numeric.cases import Case
from proofs.numeric.comparison import ReferenceComparison
from proofs.references import bank as of_bank, restoration as of_cache


def _frozen(case: Case) -> fc.Readout:
    return fc.freeze(case["scores"], case["values"], mask=case["mask"])


def _on_bank(function: Callable, *names: str) -> Callable:
    """Call `function(readout, …)` on a bank case."""
    return lambda case: function(_frozen(case), *[case[name] for name in names])


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


def _removed(case: Case) -> Case:
    """The groups of a sparse case as masks of deleted keys, for the deletion reference."""
    keys = range(len(case["scores"]))
    return {**case, "removed": [[key in group for key in keys] for group in case["groups"]]}


def _each_removed(case: Case) -> Case:
    """Every key deleted on its own."""
    keys = range(len(case["scores"]))
    return {**case, "removed": [[key == single for key in keys] for single in keys]}


def _restorations(case: Case):
    return fc.restoration_response(_frozen(case), case["score_delta"], case["value_delta"])


def _restoration_scores(method: str) -> Callable:
    def compute(case: Case):
        names = ("scores", "values", "original_scores", "original_values")
        cache = fc.CachePair(*[case[name] for name in names])
        return fc.restoration_scores(cache, case["output_projection"], method)

    return compute


# The functions of a readout, with the parts of a case that they take beside it.
_PARTS: dict[str, tuple[str, ...]] = {
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

# Those whose results are bounded, or grow no faster than the increments, take these of any size.
# (The band interaction, whose products of two increments underflow beside the largest values, does not.)
_WIDE = {
    "log_ratio",
    "log_normaliser",
    "probability_change",
    "finite_response",
    "key_response",
    "value_response",
    "interaction",
    "remainder_weights",
    "divergence",
    "total_variation",
}

BANK = [
    *(
        ReferenceComparison(
            name,
            _on_bank(getattr(fc, name), *names),
            getattr(of_bank, name),
            cases.wide_bank if name in _WIDE else cases.bank,
        )
        for name, names in _PARTS.items()
    ),
    ReferenceComparison(
        "freeze", lambda case: _frozen(case).output, of_bank.output, cases.wide_bank
    ),
    ReferenceComparison(
        "rotary_remainder",
        _on_bank(fc.rotary_remainder, "linear_delta"),
        of_bank.positional_jacobian,
        cases.bank,
    ),
    ReferenceComparison(
        "deletion_response",
        _on_bank(fc.deletion_response, "removed"),
        of_bank.deletion_response,
        cases.deletions,
    ),
    ReferenceComparison(
        "deletion_jacobian",
        _on_bank(fc.deletion_jacobian, "removed"),
        of_bank.deletion_jacobian,
        cases.deletions,
    ),
    ReferenceComparison(
        "restoration_response", _restorations, of_bank.restoration_response, cases.full_bank
    ),
    ReferenceComparison(
        "PreparedGroups.response",
        _on_groups("response", "group_scores", "group_values"),
        of_bank.sparse_response,
        cases.groups,
    ),
    ReferenceComparison(
        "PreparedGroups.divergence",
        _on_groups("divergence", "group_scores"),
        of_bank.sparse_divergence,
        cases.groups,
    ),
    ReferenceComparison(
        "PreparedGroups.total_variation",
        _on_groups("total_variation", "group_scores"),
        of_bank.sparse_total_variation,
        cases.groups,
    ),
    ReferenceComparison(
        "PreparedGroups.deletion",
        _on_groups("deletion"),
        lambda num, **case: of_bank.deletion_response(num, **_removed(case)),
        cases.proper_groups,
    ),
    ReferenceComparison(
        "Bank.output",
        lambda case: fc.read_bank(case["scores"], case["values"]).output,
        of_bank.output,
        cases.full_bank,
    ),
    ReferenceComparison(
        "prepare_spans.response",
        _on_spans("response", "group_scores", "group_values"),
        of_bank.sparse_response,
        cases.spans,
    ),
    ReferenceComparison(
        "prepare_spans.deletion",
        _on_spans("deletion"),
        lambda num, **case: of_bank.deletion_response(num, **_removed(case)),
        cases.proper_spans,
    ),
    ReferenceComparison(
        "prepare_singles.response",
        _on_singles("response", "score_delta", "value_delta"),
        of_bank.restoration_response,
        cases.full_bank,
    ),
    ReferenceComparison(
        "prepare_singles.deletion",
        _on_singles("deletion"),
        lambda num, **case: of_bank.deletion_response(num, **_each_removed(case)),
        cases.proper_groups,
    ),
]

CACHE = [
    ReferenceComparison(
        f"restoration_scores.{name}",
        _restoration_scores(name.replace("_", "-")),
        getattr(of_cache, name),
        cases.corrupted_cache,
    )
    for name in ("exact", "first_order", "second_order", "attention", "value_norm", "fisher")
]
