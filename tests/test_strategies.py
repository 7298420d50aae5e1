"""The drawn cases are adversarial: each plain formula that loses digits is found out by them.

A plain formula is held to the bounds that the package's own formula derives for itself on a case.
"""

from collections.abc import Callable

import pytest
import torch
from hypothesis import Phase, find, settings
from torch import Tensor

import finite_calculus as fc
from proofs.numeric.cases import Batch, Case
from proofs.numeric.comparison import ReferenceComparison, Sample
from proofs.numeric.comparisons import COMPARISONS
from tests.helpers.strategies import STRATEGIES

SEARCH = settings(max_examples=100, phases=[Phase.generate], database=None)
pytestmark = pytest.mark.usefixtures("unchecked_shapes")


# ---- formulas that lose digits ----


def two_softmaxes(case: Case) -> tuple[Tensor, Tensor]:
    scores = case["scores"].masked_fill(~case["mask"], -torch.inf)
    return scores.softmax(-1), (scores + case["score_delta"]).softmax(-1)


def difference_of_readouts(case: Case) -> Tensor:
    before, after = (probs.unsqueeze(-2) for probs in two_softmaxes(case))
    edited = case["values"] + case["value_delta"]
    return (after @ edited - before @ case["values"]).squeeze(-2)


def difference_of_probabilities(case: Case) -> Tensor:
    before, after = two_softmaxes(case)
    return after - before


def growth_of_probabilities(case: Case) -> Tensor:
    before, _ = two_softmaxes(case)
    edited = before * case["score_delta"].exp()
    return edited / edited.sum(-1, keepdim=True) - before


def difference_of_logarithms(case: Case) -> Tensor:
    before, after = two_softmaxes(case)
    return torch.where(case["mask"], before * (before / after).log(), 0.0).sum(-1)


def members(case: Case) -> tuple[Tensor, Tensor]:
    probs = case["scores"].softmax(-1)
    centred = case["values"] - probs.unsqueeze(-2) @ case["values"]
    return probs[:, case["groups"]], centred[:, case["groups"]]


def one_plus_growth(case: Case) -> Tensor:
    probs, centred = members(case)
    edited, grown = probs * case["group_scores"].exp(), probs * case["group_scores"].expm1()
    change = grown.unsqueeze(-1) * centred + edited.unsqueeze(-1) * case["group_values"]
    return change.sum(-2) / (1 + grown.sum(-1, keepdim=True))


def one_minus_mass(case: Case) -> Tensor:
    probs, centred = members(case)
    return -(probs.unsqueeze(-1) * centred).sum(-2) / (1 - probs.sum(-1, keepdim=True))


def rotated(case: Case, frequencies: Tensor) -> Tensor:
    planes = fc.Rotary(frequencies, case["vector"].shape[-1], case["layout"])
    return fc.rotate(planes, case["vector"], case["shift"], band=case["band"])


def difference_of_rotations(case: Case) -> Tensor:
    return rotated(case, case["frequencies"]) - case["vector"]


def rotation_by_rounded_frequencies(case: Case) -> Tensor:
    return rotated(case, case["frequencies"].float())


def difference_of_squared_norms(case: Case) -> Tensor:
    error, change = case["error"].unsqueeze(-2), case["change"]
    return (error**2).sum(-1) - ((error + change) ** 2).sum(-1)


def difference_of_writes(case: Case) -> Tensor:
    """The benefit of restoring each token, from writes that are formed and subtracted."""

    def write(scores: Tensor, values: Tensor) -> Tensor:
        outputs = (scores.softmax(-1).unsqueeze(-2) @ values).squeeze(-2)
        return torch.einsum("chw,hwm->cm", outputs, case["output_projection"])

    corrupt = case["scores"], case["values"]
    original = case["original_scores"], case["original_values"]
    target = write(*original)
    before = ((write(*corrupt) - target) ** 2).sum(-1)
    benefits = []
    for here in torch.eye(case["scores"].shape[-1], dtype=torch.bool):
        restored = torch.where(here, original[0], corrupt[0])
        after = write(restored, torch.where(here.unsqueeze(-1), original[1], corrupt[1]))
        benefits.append(before - ((after - target) ** 2).sum(-1))
    return torch.stack(benefits, -1)


PLAIN: list[tuple[str, Callable[[Case], Tensor]]] = [
    ("finite_response", difference_of_readouts),
    ("probability_change", difference_of_probabilities),
    ("probability_change", growth_of_probabilities),
    ("divergence", difference_of_logarithms),
    ("PreparedGroups.response", one_plus_growth),
    ("PreparedGroups.deletion", one_minus_mass),
    ("prepare_spans.response", one_plus_growth),
    ("prepare_spans.deletion", one_minus_mass),
    ("displacement", difference_of_rotations),
    ("rotate", rotation_by_rounded_frequencies),
    ("restoration_benefit", difference_of_squared_norms),
    ("restoration_scores.exact", difference_of_writes),
]


def found_out(name: str, formula: Callable[[Case], Tensor], batch: Batch) -> bool:
    """Whether the formula errs by more than the package's own bound, in some case of the batch."""
    own = COMPARISONS[name]

    def compute(case: Case) -> Tensor:
        return fc.track(formula({key: untracked(item) for key, item in case.items()}))

    other = ReferenceComparison(name, compute, own.reference, own.draw)
    pairs = zip(other.measure(batch), own.measure(batch), strict=True)
    return any(not Sample(plain.errors, best.bounds).over_bound <= 1 for plain, best in pairs)


def untracked(item):
    return fc.value_of(item) if isinstance(item, Tensor) else item


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("name", "formula"), PLAIN)
def test_a_plain_formula_is_found_out(name: str, formula, dtype: str) -> None:
    cases = STRATEGIES[COMPARISONS[name].draw.__name__](dtype)
    assert find(cases, lambda batch: found_out(name, formula, batch), settings=SEARCH)
