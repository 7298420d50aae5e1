"""Second order, bands and trust of a search: against execution of everything."""

import math
from dataclasses import replace

import pytest
import torch

from finite_calculus.models import Delete, Odds, load_capture, save_capture
from finite_calculus.search import calibrate, score, span_family, verify_top
from finite_calculus.search.conformal import conformal_quantile, tail_of
from finite_calculus.search.downstream import noise_floor, required
from finite_calculus.search.sample import draw, strata
from finite_calculus.search.settle import settle
from finite_calculus.tasks.synthetic import retrieval_pair
from tests.search.conftest import CapturedPair


def chat(pair: CapturedPair, text: str) -> str:
    return pair.instrument.tokenizer.apply_chat_template(
        [{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True
    )


@pytest.fixture(scope="module")
def executed(embedded: CapturedPair):
    """Calibrated tables of four prompts that chose nothing, each beside the execution of all rows."""
    results = []
    for number in (11, 12):
        for prompt in retrieval_pair(number):
            capture = embedded.instrument.capture(
                chat(embedded, prompt.text), answer="A", versus="B", curvature=8
            )
            table = calibrate(embedded.instrument, score(capture), seed=number)
            edits = [table.edit(row) for row in range(len(table))]
            run = embedded.instrument.execute(capture, edits, batch=256, path="shared")
            results.append((table, run.effects))
    return results


def test_the_second_order_is_nearer_to_the_executed_effect(executed) -> None:
    for table, effects in executed:
        for layer in (2, 3):
            rows = table.layer == layer
            first = (table.effect - effects)[rows].abs().mean()
            second = (required(table).second - effects)[rows].abs().mean()
            assert 3 * second < first


def test_bands_hold_at_their_rate_on_rows_that_were_not_executed(executed) -> None:
    shares, counts = [], []
    for table, effects in executed:
        rest = table.calibrated.executed.isnan()
        inside = (effects - table.predicted).abs() <= table.calibrated.band
        shares.append(float(inside[rest].double().mean()))
        counts.append(int(table.calibrated.sampled.sum()) // len(table.calibrated.group.unique()))
    # The rate within a stratum is Beta distributed around the level; a dozen strata of four tables.
    spread = math.sqrt(0.95 * 0.05 / (min(counts) + 2) / (12 * len(executed)))
    assert sum(shares) / len(shares) >= 0.95 - 3 * spread


def test_wrong_signs_are_marked_and_few_others(executed) -> None:
    wrong_total = marked = right_total = false = 0
    for table, effects in executed:
        above = effects.abs() > 10 * noise_floor(table.capture)
        wrong = above & (torch.sign(table.predicted) != torch.sign(effects))
        doubted = ~table.calibrated.trusted
        wrong_total, marked = wrong_total + int(wrong.sum()), marked + int((wrong & doubted).sum())
        right = above & ~wrong
        right_total, false = right_total + int(right.sum()), false + int((right & doubted).sum())
    assert wrong_total > 0
    assert marked >= 0.95 * wrong_total
    assert false <= 0.2 * right_total


def test_executed_rows_are_certain_and_others_less_their_band(executed) -> None:
    table, _ = executed[0]
    done = ~table.calibrated.executed.isnan()
    certain = table.certain()
    assert torch.equal(certain[done], table.calibrated.executed[done].abs())
    assert bool((certain[~done] <= table.predicted[~done].abs()).all())
    assert not bool(certain[~done & ~table.calibrated.trusted].any())
    order = table.order(20, by="certain")
    assert certain[order].tolist() == sorted(certain.tolist(), reverse=True)[:20]
    against = table.certain(towards="versus")
    assert bool((against[~done] <= (-table.predicted[~done]).clamp(min=0)).all())


def test_replayed_from_disk_the_table_is_the_same(executed, tmp_path) -> None:
    table, _ = executed[0]
    loaded = load_capture(save_capture(table.capture, tmp_path / "one.safetensors"))
    again = score(loaded)
    for name in ("second", "outside", "size", "scale", "missing"):
        assert torch.equal(getattr(required(again), name), getattr(required(table), name)), name
    row = again.row(7)
    assert row.second == float(required(table).second[7])
    assert row.trust == pytest.approx(
        abs(row.effect) / (abs(row.effect) + abs(row.second - row.effect))
    )
    assert row.trusted is None
    assert table.row(7).trusted in (True, False)
    columns = table.columns()
    assert len(columns["second"]) == len(columns["trusted"]) == len(table)


def test_spans_and_listed_edits_have_the_same_second_order(embedded: CapturedPair) -> None:
    instrument = embedded.instrument
    capture = instrument.capture(embedded.capture.ids, answer="A", versus="B", curvature=4)
    kinds = (Odds.anywhere(8.0), Delete.anywhere())
    for width in (1, 3):
        table = score(capture, span_family(width, kinds=kinds))
        rows = [0, len(table) // 3, len(table) - 1]
        listed = score(capture, [table.edit(row) for row in rows])
        for name in ("second", "size", "outside"):
            one, other = getattr(required(table), name)[rows], getattr(required(listed), name)
            assert torch.allclose(one, other, rtol=1e-4, atol=1e-6), (width, name)


def test_sizes_are_those_of_the_writes(embedded: CapturedPair) -> None:
    table = calibrate(embedded.instrument, score(embedded.capture), count=24)
    assert required(table).second is None
    for index in (3, 900, 4000):
        layer = table.capture.layer(table.row(index).layer)
        write = table.capture.predict(table.edit(index)).write
        assert table.row(index).size == pytest.approx(
            float(write.norm()) / layer.residual, rel=1e-5
        )


def test_the_sample_meets_every_layer_and_kind(embedded: CapturedPair) -> None:
    table = calibrate(embedded.instrument, score(embedded.capture), count=400)
    size = required(table).size
    group = strata(table, size)
    everywhere = torch.ones(len(table), dtype=torch.bool)
    sampled = draw(table, group, size, 400, seed=1, among=everywhere)
    rows = [table.row(int(row)) for row in sampled.nonzero().squeeze(-1)]
    assert {row.layer for row in rows} == {0, 1, 2, 3}
    assert {row.kind for row in rows} == {row.kind for row in table.rows(range(len(table)))}
    per_group = torch.bincount(group[sampled])
    assert int(per_group[per_group > 0].min()) == int(per_group.max())
    other = draw(table, group, size, 400, seed=2, among=everywhere)
    assert not torch.equal(sampled, other)


def test_conformal_quantiles_cover_and_say_when_they_cannot() -> None:
    ratios = torch.arange(1.0, 20.0).double()
    assert conformal_quantile(ratios, 0.95, whole=False) == 19
    assert conformal_quantile(ratios[:-1], 0.95, whole=False) == math.inf
    assert conformal_quantile(ratios[:-1], 0.95, whole=True) == 18
    with pytest.raises(ValueError, match="`level` must lie between"):
        conformal_quantile(ratios, 1.0, whole=False)
    draw_ = torch.Generator().manual_seed(0)
    hits = 0
    for _ in range(400):
        numbers = torch.rand(40, generator=draw_).double() ** -2
        hits += bool(numbers[-1] <= conformal_quantile(numbers[:-1], 0.9, whole=False))
    # 400 trials at a rate of at least 0.9: three standard deviations below it.
    assert hits / 400 >= 0.9 - 3 * math.sqrt(0.09 / 400)


def test_the_tail_of_a_power_law_is_found_again() -> None:
    draws = torch.rand(4000, generator=torch.Generator().manual_seed(0)).double()
    tail = tail_of(draws ** (-1 / 2))
    assert tail.exponent == pytest.approx(2, rel=0.15)
    points = torch.tensor([-1.0, 2.0, 10.0, 100.0]).double()
    near, far = tail.above(points)[:3], float(tail.above(points)[3])
    # The exponent has a standard error of 2/√400; three of them are e^0.35 at 10 and e^1.04 at 100.
    assert near.tolist() == pytest.approx([1, 0.25, 0.01], rel=0.42)
    assert abs(math.log(far / 1e-4)) <= 1.04
    assert tail_of(torch.ones(2).double()).above(points).tolist()[-1] > 0.3


def test_a_settled_top_is_the_top_of_all(executed, embedded: CapturedPair) -> None:
    for table, effects in executed:
        settled = settle(embedded.instrument, table, 5, budget=2000)
        best = effects.abs().topk(5).values
        reached = settled.effects.nan_to_num().abs().topk(5).values
        assert 0 <= settled.missed <= 1
        if settled.missed <= 0.05:
            assert torch.allclose(best, reached, atol=1e-4)
        assert settled.spent <= 2000
    assert any(settle(embedded.instrument, t, 5, budget=4000).missed <= 0.05 for t, _ in executed)


def test_verification_of_a_calibrated_table_states_what_may_be_missed(executed, embedded) -> None:
    table, effects = executed[0]
    check = verify_top(embedded.instrument, table, 3, budget=1000, towards="answer")
    assert check.missed is not None
    assert [item.effect for item in check.top] == pytest.approx(
        effects.topk(3).values.tolist(), abs=1e-4
    )
    stingy = verify_top(embedded.instrument, table, 3, budget=3, towards="answer")
    assert stingy.missed is not None
    assert stingy.spent == 3 or stingy.stopped == "calibrated"
    assert stingy.missed >= check.missed


def test_what_is_not_calibrated_is_refused(embedded: CapturedPair) -> None:
    table = score(embedded.capture)
    with pytest.raises(ValueError, match="`table` must be calibrated"):
        table.certain()
    with pytest.raises(ValueError, match="`table` must know the sizes"):
        required(table)
    with pytest.raises(ValueError, match="`count` must be at least 1"):
        calibrate(embedded.instrument, table, count=0)
    assert replace(table, downstream=None).row(0).band is None
