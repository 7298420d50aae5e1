"""The rounding budget of a margin covers what rounding does, and the slope's bound what it leaves out."""

import pytest
import torch

from finite_calculus.models import attach
from finite_calculus.models.baseline import batch_baseline
from finite_calculus.models.noise import module_spread
from finite_calculus.models.precision import FLOAT32
from native_checks.bench import Bench
from native_checks.gradients import slope_at_zero

UNIT = torch.finfo(torch.float32).eps / 2
STEPS = 2.0 ** -torch.arange(14, dtype=torch.float64)
PLACES = torch.cat([STEPS, -STEPS, torch.zeros(1, dtype=torch.float64)])


@pytest.mark.parametrize("family", ["qwen2", "gemma2", "opt", "gpt2", "qwen3_moe"])
def test_margins_of_all_batch_sizes_lie_within_two_budgets_of_each_other(tiny, ids, family):
    with attach(tiny(family)) as instrument:
        bench = Bench(instrument, ids, 3, 5, 8)
        prompt = instrument.prompt(ids)
        margins = torch.cat(
            [
                bench.capture.margin.of(batch_baseline(prompt, rows).logits.double())
                for rows in (1, 2, 3, 5, 8, 13)
            ]
        )
        spread = float(margins.max() - margins.min())
        assert spread <= 2 * bench.budget
        # Nor is it so wide that it says nothing: a thousand units in the last place of the logits.
        assert bench.budget < 1000 * UNIT * float(bench.capture.logits.abs().max()) * len(
            prompt.sites
        )


def test_the_spread_of_a_linear_map_covers_its_float32_rounding():
    draw = torch.Generator().manual_seed(4)
    linear = torch.nn.Linear(512, 64)
    with torch.no_grad():
        x = torch.randn(32, 512, generator=draw)
        output = linear(x)
        exact = x.double() @ linear.weight.double().mT + linear.bias.double()
        apart = (output.double() - exact).abs()
        assert bool((apart <= module_spread(linear, x, output, FLOAT32)).all())


def test_the_slope_of_a_smooth_and_of_a_kinked_function_lies_within_its_bound():
    h = PLACES
    kinks = torch.linspace(-1, 1, 41, dtype=torch.float64) + 1 / 97
    for margins, slope in (
        (torch.sin(3 * h), 3.0),
        (torch.exp(2 * h), 2.0),
        ((h.unsqueeze(-1) - kinks).relu().mean(-1), float((kinks < 0).double().mean())),
    ):
        estimate, error = slope_at_zero(STEPS, margins, torch.finfo(torch.float64).eps)
        assert abs(float(estimate) - slope) <= float(error)
        assert float(error) < slope / 4


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_a_jump_on_one_side_is_avoided_and_one_on_both_sides_is_seen(side: float):
    smooth, jump = torch.sin(3 * PLACES), (side * PLACES > 0).double()
    estimate, error = slope_at_zero(STEPS, smooth + jump, torch.finfo(torch.float64).eps)
    assert abs(float(estimate) - 3) <= float(error) < 3 / 4
    both = smooth + torch.sign(PLACES)
    estimate, error = slope_at_zero(STEPS, both, torch.finfo(torch.float64).eps)
    assert float(error) > 3


def test_rounding_of_the_margins_widens_the_bound_and_is_covered_by_it():
    draw = torch.Generator().manual_seed(5)
    h = PLACES
    for _ in range(200):
        noise = 2 * torch.rand(h.shape, generator=draw, dtype=torch.float64) - 1
        estimate, error = slope_at_zero(STEPS, torch.sin(3 * h) + 2.0**-14 * noise, 2.0**-14)
        assert abs(float(estimate) - 3) <= float(error)
