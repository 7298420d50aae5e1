"""What a preparation keeps from its first use serves every later one."""

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.func import grad, vmap

import finite_calculus as fc
from tests.autograd.functions import leaf
from tests.transforms.table import GROUPS, STARTS, TABLE

SCORES, VALUES = TABLE["freeze"].rows()[:2]
# Beyond the reach of the quotient, so that the small readout is needed.
STRONG = 60 * SCORES[GROUPS]


def prepared(kind: str, scores: Tensor) -> fc.PreparedGroups:
    if kind == "groups":
        return fc.prepare(fc.freeze(scores, VALUES), GROUPS)
    return fc.prepare_spans(fc.read_bank(scores, VALUES), STARTS[:2], 2)


def use_with_fake_tensors(groups: fc.PreparedGroups) -> None:
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        groups.response(mode.from_tensor(STRONG))


FIRST_USES = {
    "fake": use_with_fake_tensors,
    "vmap": lambda groups: vmap(groups.response)(STRONG.expand(3, 2, 2)),
    "grad": lambda groups: grad(lambda d: groups.response(d).sum())(STRONG),
}


@pytest.mark.parametrize("kind", ["groups", "spans"])
@pytest.mark.parametrize("use", FIRST_USES)
def test_a_transform_leaves_nothing_behind_in_a_preparation(kind: str, use: str):
    groups = prepared(kind, SCORES)
    FIRST_USES[use](groups)
    assert torch.equal(groups.response(STRONG), prepared(kind, SCORES).response(STRONG))
    result = groups.small_readout
    assert type(result.probs) is Tensor
    assert result is groups.small_readout


@pytest.mark.parametrize("kind", ["groups", "spans"])
@pytest.mark.parametrize("without", [torch.no_grad, torch.inference_mode])
def test_a_use_without_gradients_loses_none_later(kind: str, without: type):
    def gradient(groups: fc.PreparedGroups, scores: Tensor) -> Tensor:
        return torch.autograd.grad(groups.response(STRONG).sum(), scores)[0]

    scores = leaf(SCORES)
    groups = prepared(kind, scores)
    with without():
        groups.response(STRONG)
    other = leaf(SCORES)
    assert torch.equal(gradient(groups, scores), gradient(prepared(kind, other), other))
