"""The parts of the positional study against other ways to the same numbers."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from finite_calculus.models import LayerCapture, Quantise, Restore, edited_bank
from finite_calculus.studies.positional.interactions import interaction_part
from finite_calculus.studies.positional.predictors import rotary_of
from finite_calculus.studies.positional.reorderings import _cells, reordering_part
from finite_calculus.studies.positional.repairs import METHODS, list_choices, prefix, relative_error
from finite_calculus.studies.positional.rows import BandInteraction, Reordering
from finite_calculus.studies.positional.variant import Variant, _require_plain


def turned(
    layer: LayerCapture, tokens: tuple[int, ...], shift: int, thirds: list[int]
) -> np.ndarray:
    """Keys rotated by complex numbers, plane by plane."""
    frequencies = rotary_of(layer).frequencies.double().numpy()
    planes = len(frequencies)
    keys = layer.keys.double().numpy().copy()
    plane = keys[..., :planes] + 1j * keys[..., planes : 2 * planes]
    bands = np.array_split(np.argsort(-frequencies), 3)
    chosen = [plane for n in thirds for plane in bands[n]]
    place = np.ix_(range(keys.shape[0]), tokens, chosen)
    plane[place] *= np.exp(1j * shift * frequencies[chosen])
    return np.concatenate([plane.real, plane.imag], -1)


def write(layer: LayerCapture, keys: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The projected write by one softmax."""
    repeats = layer.heads // keys.shape[0]
    scores = np.einsum(
        "hc,hjc->hj", layer.query.double().numpy(), np.repeat(keys, repeats, 0)
    ) * layer.scaling  # fmt: skip
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    y = np.einsum("hj,hjc->hc", weights, np.repeat(values, repeats, 0))
    return np.einsum("hc,hcm->m", y, layer.output_projection.double().numpy())


def test_interactions_are_those_of_four_rotated_banks(variants: list[Variant]) -> None:
    for variant in variants:
        (row,) = interaction_part(variant, [1], [128]).rows
        assert isinstance(row, BandInteraction)
        layer, tokens = variant.capture.layer(1), variant.prompt.demonstrations
        values = layer.values.double().numpy()
        both, fast, middle, none = (
            write(layer, turned(layer, tokens, 128, thirds), values)
            for thirds in ([0, 1], [0], [1], [])
        )
        interaction = np.linalg.norm(both - fast - middle + none)
        assert abs(row.closed - interaction) <= row.budget
        assert abs(row.cells - interaction) <= row.budget
        assert abs(row.joint - np.linalg.norm(both - none)) <= row.budget


def test_the_first_layer_knows_no_context_if_tokens_are_aligned(variants: list[Variant]) -> None:
    original, other = variants[0], variants[2]
    (row,) = reordering_part(original, [other], [0]).rows
    assert isinstance(row, Reordering)
    layers = original.capture.layer(0), other.capture.layer(0)
    right = torch.tensor(original.tokens.positions(2))
    wrong = right.clone()
    wrong[list(original.prompt.demonstrations)] = right[list(original.prompt.demonstrations)].flip(
        0
    )
    aligned, misaligned = (_cells(*layers, places) for places in (right, wrong))
    contexts = [float((cells[2] - cells[0]).norm()) for cells in (aligned, misaligned)]
    assert contexts[0] < 1e-3 * contexts[1]
    # The endpoints do not depend on the order in which keys are listed.
    torch.testing.assert_close(aligned[3], misaligned[3])
    assert abs(row.context) < 1e-3 * row.total


def test_reordering_cells_have_the_native_endpoints(variants: list[Variant]) -> None:
    checks = reordering_part(variants[0], variants[1:4], [0, 1]).checks
    endpoints = checks["reordering, layer 1: endpoints against the native writes"]
    assert len(endpoints) == 6
    assert all(error <= bound for error, bound in endpoints)


@pytest.mark.parametrize("bits", [2, 4])
def test_exact_greedy_repair_is_the_best_of_all_single_restorations(
    variants: list[Variant], bits: int
) -> None:
    layer = variants[0].capture.layer(1)
    choices = [c for c in list_choices(layer, (1,)) if c.bits == bits]
    original = write(layer, layer.keys.double().numpy(), layer.values.double().numpy())
    quantised = Quantise(1, prefix(layer), bits)

    def error(*edits: object) -> float:
        bank = edited_bank(layer, (quantised, *edits))  # pyright: ignore[reportArgumentType]
        return float(
            np.linalg.norm(
                write(layer, bank.keys.double().numpy(), bank.values.double().numpy()) - original
            )
        )

    before = error()
    singles = {token: error(Restore(1, (token,))) for token in prefix(layer)}
    by_method = {(c.method, c.rescored, c.entries): c for c in choices}
    exact = by_method["exact", True, 1]
    assert relative_error(exact) == pytest.approx(min(singles.values()) / before, rel=1e-9)
    for (_, _, entries), choice in by_method.items():
        if entries:
            left = error(Restore(1, tuple(sorted(choice.restored[:entries]))))
            assert relative_error(choice) == pytest.approx(left / before, rel=1e-9)
    assert (
        by_method["second-order", True, 1].restored[:1]
        == (by_method["second-order", False, 1].restored[:1])
    )
    assert len(by_method) == 2 * len(METHODS) + 1


def test_random_restoration_is_seeded(variants: list[Variant]) -> None:
    layer = variants[0].capture.layer(1)
    first, again, other = (
        [c.restored for c in list_choices(layer, seed, methods=[("random", False)])]
        for seed in ((1, 2), (1, 2), (1, 3))
    )
    assert first == again != other


@pytest.mark.parametrize(
    ("change", "obstacle"),
    [
        ({"softcap": 30.0}, "a softcap"),
        ({"sinks": torch.zeros(4)}, "sinks"),
        ({"first": 3}, "a window that hides tokens"),
        ({"rotary": None}, "no rotary position"),
    ],
)
def test_layers_that_the_study_does_not_treat_are_refused(
    variants: list[Variant], change: dict[str, object], obstacle: str
) -> None:
    layer = replace(variants[0].capture.layer(1), **change)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=f"Layer 1 must be plain softmax .* it has {obstacle}"):
        _require_plain(layer)
    if layer.rotary is None:
        with pytest.raises(ValueError, match="Layer 1 must rotate its keys; it does not"):
            rotary_of(layer)
