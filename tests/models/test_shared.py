"""The fast path: one prefix for all rows, its own control, and the native results within rounding."""

from dataclasses import dataclass, replace

import pytest
import torch
from transformers.cache_utils import DynamicLayer

from finite_calculus.models import (
    Delete,
    Edit,
    KeyShift,
    Odds,
    Quantise,
    QueryEdit,
    Replace,
    ScaleValues,
    attach,
    edited_bank,
    output_error,
    predict,
)
from finite_calculus.models.columns import edited_columns
from finite_calculus.models.latent import prefix_bank
from finite_calculus.models.patches import stack_patches
from native_checks.bench import Bench, battery


@dataclass(frozen=True, eq=False)
class Mirrored(Edit):
    """An edit of somebody else: it looks at columns that it does not name."""

    def apply(self, layer, bank):
        bias = bank.bias.clone()
        bias[:, 0] += float(bank.keys[:, -1].sum())
        return replace(bank, bias=bias)


@pytest.mark.parametrize("family", ["qwen2", "mistral", "gemma2", "gpt_oss", "qwen3_moe", "gpt2"])
def test_effects_are_the_native_ones_within_rounding_and_local_responses_are_predicted(
    tiny, ids, family
):
    with attach(tiny(family)) as instrument:
        bench = Bench(instrument, ids, 3, 5, 8)
        apart = (bench.shared.effects - bench.resumed.effects).abs()
        assert bool((apart <= 4 * bench.budget).all())
        for edit, outcome in zip(bench.edits, bench.shared.outcomes, strict=True):
            bank = edited_bank(outcome.layer, edit)
            bound = output_error(outcome.layer) + output_error(outcome.layer, bank)
            local = (predict(outcome.layer, edit).response - outcome.response).abs()
            assert bool((local <= bound).all())


def test_touched_columns_hold_what_the_whole_bank_holds(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5).layer(1)
        donor = instrument.capture(ids.flip(0), answer=3, versus=5).layer(1)
    edits = [
        *battery(layer, donor),
        *[ScaleValues(1, (j, j + 3), 0.5) for j in range(6)],
        *[Odds(1, (9, 4), 2.0), Odds(1, (4,), 2.0), Odds(1, (3, 3), 2.0), Odds(1, (3,), 2.0)],
        *[Replace(1, (j,), donor, strength=0.3) for j in (5, 5, 2)],
        *[KeyShift(1, (j,), 2.0) for j in (5, 1)],
        *[Quantise(1, (j, 12), 4) for j in (5, 1)],
        *[Delete(1, (5, 2)), Delete(1, (5,)), Mirrored(1, (3,))],
    ]
    for edit, bank in zip(edits, edited_columns(layer, edits), strict=True):
        whole, columns = edited_bank(layer, edit), bank.columns
        assert torch.equal(bank.query, whole.query)
        for name in ("keys", "values", "bias"):
            assert torch.equal(getattr(bank, name), getattr(whole, name)[:, columns])
        assert torch.equal(bank.removed, whole.removed[columns])
        others = torch.ones(20, dtype=torch.bool).index_fill(0, columns, False)
        assert not bool((whole.changed | whole.removed | (whole.bias != 0).any(0))[others].any())


def test_equal_edits_of_different_tokens_are_applied_together(tiny, ids, monkeypatch):
    with attach(tiny("qwen2")) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5).layer(1)
    calls = []
    genuine = ScaleValues.apply
    monkeypatch.setattr(ScaleValues, "apply", lambda *a: calls.append(1) or genuine(*a))
    edited_columns(layer, [ScaleValues(1, (j,), 0.5) for j in range(15)])
    assert len(calls) == 1


def test_a_row_does_not_depend_on_the_others_of_its_batch(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        bench = Bench(instrument, ids, 3, 5, 8)
        capture = bench.capture
        edits = [Odds(1, (j,), 3.0) for j in range(7)]
        others = [*(Delete(1, (j, j + 1)) for j in range(3)), edits[3], QueryEdit(1, (), _nudge(6))]
        mine = instrument.execute(capture, edits, path="shared").outcomes[3]
        theirs = instrument.execute(capture, others, path="shared").outcomes[3]
        again = instrument.execute(capture, edits, path="shared").outcomes[3]
    assert torch.equal(mine.write, again.write)
    assert mine.margin == again.margin
    assert abs(mine.effect - theirs.effect) <= 4 * bench.budget
    assert abs(mine.effect) > 100 * abs(mine.effect - theirs.effect)


def _nudge(heads):
    return torch.randn(heads, 8, generator=torch.Generator().manual_seed(3))


def test_logits_are_returned_on_request_and_their_margin_is_that_of_two_rows(tiny, ids):
    with attach(tiny("gemma2")) as instrument:
        bench = Bench(instrument, ids, 3, 5, 8)
        edits = [Odds(2, (13,), 3.0), Delete(0, (15,))]
        short = instrument.execute(bench.capture, edits, path="shared")
        full = instrument.execute(bench.capture, edits, path="shared", keep_logits=True)
        for one, two in zip(short.outcomes, full.outcomes, strict=True):
            assert one.logits is None
            assert two.logits.shape == (96,)
            assert float(bench.capture.margin.of(two.logits.double())) == two.margin
            assert abs(one.margin - two.margin) <= 2 * bench.budget
            assert abs(one.drift) <= 2 * bench.budget


def test_a_head_that_is_no_plain_linear_map_runs_as_it_is(ids):
    from finite_calculus.models.tiny import tiny_model

    class Head(torch.nn.Linear):
        pass

    model = tiny_model("qwen2")
    with attach(model) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        before = instrument.execute(capture, [Odds(1, (3,), 3.0)], path="shared", keep_logits=True)
        model.lm_head.__class__ = Head
        after = instrument.execute(capture, [Odds(1, (3,), 3.0)], path="shared")
    assert torch.equal(before.margins, after.margins)


def test_the_prefix_is_neither_changed_nor_copied(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)
        prefix = instrument.prefix(ids)
        before = prefix.digest(), [layer.keys.data_ptr() for layer in prefix.layers]
        calls = []

        def attend(call, keys, values, patch=None):
            calls.append((keys.data_ptr(), call.key.shape[2]))
            return genuine(call, keys, values, patch)

        import finite_calculus.models.shared as shared

        genuine, shared.shared_attention = shared.shared_attention, attend
        try:
            instrument.execute(capture, [Odds(0, (j,), 2.0) for j in range(9)], path="shared")
        finally:
            shared.shared_attention = genuine
        assert (prefix.digest(), [layer.keys.data_ptr() for layer in prefix.layers]) == before
    # Every layer read the stored keys themselves; each row brought one key of its own.
    assert calls == [(pointer, 1) for pointer in before[1]]


def test_the_head_and_the_blocks_are_restored_when_a_pass_fails(tiny, ids, monkeypatch):
    model = tiny("qwen2")
    with attach(model) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5)

        def fail(*args, **kwargs):
            raise RuntimeError("broken norm")

        with monkeypatch.context() as patch:
            patch.setattr(model.model.norm, "forward", fail)
            with pytest.raises(RuntimeError, match="broken norm"):
                instrument.execute(capture, [Odds(2, (15,), 2.0)], path="shared")
        assert not [name for name, module in model.named_modules() if "forward" in vars(module)]


def test_rows_of_a_patch_are_padded_with_columns_that_nobody_attends_to(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        layer = instrument.capture(ids, answer=3, versus=5).layer(1)
    edits = [Odds(1, (3, 7, 9), 2.0), Delete(1, (4,))]
    patch = stack_patches(layer, edited_columns(layer, edits), torch.device("cpu"))
    assert patch.columns.tolist() == [[20, 20, 20], [3, 7, 9], [4, 20, 20]]
    assert patch.removed.tolist() == [[True] * 3, [False] * 3, [True] * 3]
    assert patch.query is None
    scores = torch.zeros(2, 1, 3, 20)
    wide = patch.into(scores, torch.zeros(2, 3, 3, 3))
    assert bool((wide[..., 20] == -torch.inf).all())
    assert int((wide == -torch.inf).sum()) == 2 * 3 * 3 + 2 * 3


@pytest.mark.usefixtures("unchecked_shapes")
def test_bad_paths_and_empty_prefixes_are_refused(tiny, ids):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5, layers=[1])
        with pytest.raises(
            ValueError, match="an execution path, one of resumed, whole, shared; got"
        ):
            instrument.execute(capture, [Odds(1, (3,), 2.0)], path="scenic")
        empty = replace(instrument.prefix(ids), layers=(DynamicLayer(),) * 3)
        prompt = replace(instrument.prompt(ids), prefix=empty)
        with pytest.raises(ValueError, match="must hold keys and values to be shared; it holds"):
            prefix_bank(prompt, prompt.sites[1])
