"""Bits by layer, head and token: costs are exact, budgets are kept, files come back, the model agrees."""

import json
from dataclasses import replace

import pytest
import torch

from finite_calculus.cache import (
    Disk,
    Merge,
    Policy,
    Rounding,
    allot,
    altered_caches,
    cache_error,
    entry_benefits,
    entry_changes,
    generate_from,
    named_transform,
    reading,
    watch,
)
from finite_calculus.cache.policy import FULL
from tests.cache.windows import drawn_window, rounding, written


def rounded(window, bits: int, symmetric: bool = False):
    return replace(
        window,
        keys=Rounding(symmetric).read(window.keys, bits),
        values=Rounding(symmetric).read(window.values, bits),
    )


@pytest.mark.parametrize("sinks", [False, True])
def test_benefits_are_the_differences_of_squared_errors(sinks) -> None:
    """Against the definition: the write with one entry read otherwise, from softmax over attended keys."""
    window = drawn_window(sinks=sinks, keys=7)
    now, nothing = rounded(window, 3), torch.zeros(4, 7, dtype=torch.bool)
    benefits, changes = (of(window, now, window) for of in (entry_benefits, entry_changes))
    size = window.sizes()
    before = (written(now, nothing) - written(window, nothing)).norm(dim=-1)
    for group in range(2):
        for key in range(7):
            keys, values = now.keys.clone(), now.values.clone()
            keys[group, key], values[group, key] = (
                window.keys[group, key],
                window.values[group, key],
            )
            one = replace(now, keys=keys, values=values)
            after = (written(one, nothing) - written(window, nothing)).norm(dim=-1)
            wanted = (((before**2 - after**2) / size**2).mean()).item()
            # ‖e‖² errs by twice ‖e‖ times what a write errs by, for either of two errors.
            slack = 4 * (rounding(now).norm(dim=-1) * (before + after) / size**2).max().item()
            assert abs(float(benefits[group, key]) - wanted) <= slack
            moved = (written(one, nothing) - written(now, nothing)).norm(dim=-1)
            wanted = ((moved / size) ** 2).mean().item()
            slack = 4 * (rounding(now).norm(dim=-1) * moved / size**2).max().item()
            assert abs(float(changes[group, key]) - wanted) <= slack
    assert float(benefits.abs().max()) > 1e-6


def test_a_policy_keeps_its_budget_and_no_uniform_pair_is_better() -> None:
    windows = [replace(drawn_window(keys=12, seed=n), layer=n) for n in range(3)]
    totals = []
    for budget in (8.0, 9.5, 11.0, 13.9):
        found = allot(windows, budget, rounds=6)
        assert found.searched.bits <= budget
        assert found.uniform.bits <= budget
        assert found.best.total <= min(found.searched.total, found.uniform.total)
        totals.append(found.best.total)
        # The error is that of the whole policy, from the definition.
        nothing = torch.zeros(4, 12, dtype=torch.bool)
        for window in windows:
            read = reading(window, *found.best.policy(window.keys, window.values, window.layer))
            apart = (written(read, nothing) - written(window, nothing)).norm(dim=-1)
            wanted = (apart / window.sizes()).square().mean()
            assert found.best.errors[window.layer] == pytest.approx(
                float(wanted), rel=1e-9, abs=1e-20
            )
    assert totals == sorted(totals, reverse=True)
    assert totals[0] > 4 * totals[-1]


def test_memory_counts_scales() -> None:
    assert Rounding(symmetric=True).cost(4, 24) == 4 * 24 + 16
    assert Rounding().cost(4, 24) == 4 * 24 + 32
    assert Rounding(axis="group32").cost(2, 64) == 2 * 64 + 2 * 32
    assert Rounding().cost(FULL, 24) == 32 * 24
    windows = [drawn_window(keys=9)]
    everything = allot(windows, 32.0, levels=(2, FULL)).searched
    assert everything.bits == 32
    assert everything.total == 0


def test_a_policy_comes_back_from_its_file_and_other_files_are_refused(tmp_path) -> None:
    windows = [drawn_window(keys=9)]
    policy, path = allot(windows, 9.0).searched.policy, tmp_path / "policy.json"
    policy.save(path)
    window = windows[0]
    for again in (Policy.load(path), named_transform(str(path))):
        made = again(window.keys, window.values, 0)
        assert all(map(torch.equal, made, policy(window.keys, window.values, 0)))
    assert all(
        map(torch.equal, policy(window.keys, window.values, 5), (window.keys, window.values))
    )
    with pytest.raises(ValueError, match="must be applied to the prompt that it was made for"):
        policy(window.keys[:, :4], window.values[:, :4], 0)
    content = json.loads(path.read_text())
    for broken, message in (
        ({"axis": "vector"}, "it cannot be read: KeyError"),
        (content | {"keys": {"0": [[9]]}}, "bits must be 2 to 8 or 32"),
        (content | {"keys": {"0": [[2]]}}, "same layers and tokens"),
    ):
        path.write_text(json.dumps(broken))
        with pytest.raises(ValueError, match=message):
            Policy.load(path)
    with pytest.raises(ValueError, match="there is none"):
        named_transform("nowhere.json")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"budget": 2.0}, "`budget` must be at least"),
        ({"levels": (1, 4)}, "`levels` must be bits from 2 to 8"),
        ({"rounds": 0}, "`rounds` must be at least 1"),
    ],
)
def test_searches_that_cannot_be_are_refused(options, message) -> None:
    with pytest.raises(ValueError, match=message):
        allot([drawn_window()], **{"budget": 12.0} | options)
    with pytest.raises(ValueError, match="scale belongs to no single token"):
        Rounding(axis="channel")
    with pytest.raises(ValueError, match="same groups and tokens"):
        allot([drawn_window(), drawn_window(keys=5)], 12.0)


def test_what_is_executed_and_generated_is_read_through_the_policy(embedded) -> None:
    instrument, capture = embedded.instrument, embedded.capture
    windows = watch(instrument.model, capture.ids, queries=4)
    coarse = allot(windows, 4.7, rounds=4).best.policy
    fine = allot(windows, 32.0, levels=(FULL,)).best.policy
    errors = [cache_error(instrument, capture, windows, policy) for policy in (coarse, fine)]
    assert errors[0].divergence > errors[1].divergence == 0.0
    texts = generate_from(instrument, capture, altered_caches(windows, fine), tokens=3)
    assert texts.same
    nothing = {n: tuple(map(torch.zeros_like, x)) for n, x in altered_caches(windows, fine).items()}
    assert not generate_from(instrument, capture, nothing, tokens=3).same
    with pytest.raises(ValueError, match="`tokens` must be at least 1"):
        generate_from(instrument, capture, {}, tokens=0)


def test_merged_runs_read_as_their_mean_and_files_come_back() -> None:
    keys, values = (
        torch.randn(2, 7, 4, generator=torch.Generator().manual_seed(1)),
        torch.ones(2, 7, 4),
    )
    merged, _ = named_transform("merge/3")(keys, values, 0)
    assert torch.equal(merged[:, 0], merged[:, 2])
    torch.testing.assert_close(merged[:, 4], keys[:, 3:6].mean(1))
    assert torch.equal(merged[:, 6], keys[:, 6])
    assert torch.equal(named_transform("disk/float32")(keys, values, 0)[0], keys)
    assert torch.equal(named_transform("disk/float16")(keys, values, 0)[0], keys.half().float())
    with pytest.raises(ValueError, match="`tokens` to merge must be at least 2"):
        Merge(1)
    with pytest.raises(ValueError, match="`kind` must be one of float32, float16, bfloat16"):
        Disk("int4")
