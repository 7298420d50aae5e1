"""What masked keys hold influences nothing."""

import pytest
import torch
from torch import Tensor

import finite_calculus as fc
from tests.batching.agreement import assert_agree, batch_of, parts_of
from tests.batching.cases import (
    EDITED,
    HEADS,
    INPUTS,
    KEYS,
    PER_KEY,
    READOUT_CASES,
    WIDTH,
    unchecked,
)
from tests.helpers.tensors import draw

MASK = torch.tensor([[True, True, False, True, False], [True, False, True, False, True]])
# Each group and each set of removed keys holds masked keys of both heads.
MASKED_GROUPS = torch.tensor([[0, 1], [3, 4]])
MASKED_REMOVED = torch.tensor(
    [[True, True, False, False, False], [False, False, True, False, True]]
)


def masked_results(garbage: float) -> dict[str, Tensor]:
    """Everything that a masked readout can say, with `garbage` at its masked keys."""
    scores, values, score_delta, value_delta = (
        torch.where(MASK.reshape(*MASK.shape, *[1] * (x.ndim - 2)), x, garbage)
        for x in batch_of(READOUT_CASES["finite_response"], lead=(HEADS,))
    )
    readout = fc.freeze(scores, values, mask=MASK)
    groups = fc.prepare(readout, MASKED_GROUPS)
    spans = fc.prepare_spans(fc.read_bank(scores, values, mask=MASK), MASKED_GROUPS[:, 0], 2)
    score_edit, value_edit = score_delta[:, MASKED_GROUPS], value_delta[:, MASKED_GROUPS]
    other = value_delta.sum(-1)
    certificate = fc.certify(readout, score_delta, value_delta, draw(WIDTH))
    query, features = draw(HEADS, INPUTS), draw(HEADS, KEYS, INPUTS, seed=7)
    features = torch.where(MASK.unsqueeze(-1), features, garbage)
    weights = fc.effective_weights(query, features, values, mask=MASK)
    return {
        **{f"readout.{name}": part for name, part in vars(readout).items()},
        **{
            f"decompose.{k}": v
            for k, v in vars(fc.decompose(readout, score_delta, value_delta)).items()
        },
        **{f"certify.{name}": part for name, part in vars(certificate).items()},
        "log_ratio": fc.log_ratio(readout, score_delta),
        "probability_change": fc.probability_change(readout, score_delta),
        "remainder_weights": fc.remainder_weights(readout, score_delta),
        "divergence": fc.divergence(readout, score_delta),
        "total_variation": fc.total_variation(readout, score_delta),
        "band_interaction": fc.band_interaction(readout, score_delta, other),
        "mixed_second_derivative": fc.mixed_second_derivative(readout, score_delta, other),
        "deletion_response": fc.deletion_response(readout, MASKED_REMOVED),
        "deletion_jacobian": fc.deletion_jacobian(readout, MASKED_REMOVED),
        "prepared response": groups.response(score_edit, value_edit),
        "prepared deletion": groups.deletion(),
        "prepared divergence": groups.divergence(score_edit),
        "prepared total_variation": groups.total_variation(score_edit),
        "prepared spans response": spans.response(score_edit, value_edit),
        "prepared spans deletion": spans.deletion(),
        "effective matrix": weights.matrix,
        "effective mean": weights.mean,
        "mean_key_gauge": fc.mean_key_gauge(features, mask=MASK),
    }


@pytest.mark.parametrize("garbage", [1e9, -1e300, torch.nan, torch.inf, -torch.inf])
def test_masked_keys_influence_nothing(garbage: float):
    clean, spoiled = masked_results(0.25), masked_results(garbage)
    absent = [name for name, part in clean.items() if part is None]
    assert absent == [name for name, part in spoiled.items() if part is None]
    present = clean.keys() - absent
    assert [name for name in present if not torch.equal(clean[name], spoiled[name])] == []


# These ask for a bank whose keys are all attended.
UNMASKED = {"restoration_response", "strong single keys"}


@unchecked
@pytest.mark.parametrize("strength", [1.0, 20.0, -20.0])
@pytest.mark.parametrize("name", [name for name in EDITED if name not in UNMASKED])
def test_a_masked_readout_is_the_readout_of_the_attended_keys(name: str, strength: float):
    case = READOUT_CASES[name]
    inputs = batch_of(case, lead=())
    inputs[2] = strength * inputs[2]  # small and large increments take different paths
    inputs = [fc.track(x) if case.units is None else x for x in inputs]
    mask = MASK[0]
    whole = parts_of(case.call(*inputs, mask=mask))
    alone = parts_of(case.call(*(x[mask] for x in inputs)))
    if name in PER_KEY:
        attended = mask.nonzero().squeeze(-1)
        whole = {part: x.index_select(PER_KEY[name], attended) for part, x in whole.items()}
    assert_agree(case, whole, alone)


@pytest.mark.parametrize("strength", [1e-3, 1.0, 20.0])
def test_masked_keys_have_probability_and_change_exactly_zero(strength: float):
    scores, values, score_delta, _ = batch_of(READOUT_CASES["finite_response"], lead=(HEADS,))
    readout = fc.freeze(scores, values, mask=MASK)
    edit = strength * score_delta
    for part in (
        readout.probs,
        fc.log_ratio(readout, edit),
        fc.probability_change(readout, edit),
        fc.remainder_weights(readout, edit),
    ):
        assert int(part[~MASK].count_nonzero()) == 0
        assert int(part[MASK].count_nonzero()) == int(MASK.sum())
