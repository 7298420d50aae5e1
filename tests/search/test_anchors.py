"""What executed anchors teach: forms of the degree that the derivatives leave out."""

import torch
from torch import Tensor

from finite_calculus.search.anchors import LayerAnchors, choose_anchors, learn, rows_of_anchors

FLOAT32 = torch.finfo(torch.float32).eps


def flat_writes(rows: int, seed: int) -> tuple[Tensor, Tensor]:
    """Writes in a plane of a space of 24, and their coordinates there."""
    draw = torch.Generator().manual_seed(seed)
    plane = torch.linalg.qr(torch.randn(24, 2, generator=draw)).Q
    inside = torch.randn(rows, 2, generator=draw)
    return inside @ plane.T, inside.double()


def chosen(rows: Tensor, writes: Tensor, **options) -> LayerAnchors:
    return choose_anchors(rows, writes, writes.norm(dim=-1).double(), **options)


def cubic(inside: Tensor) -> Tensor:
    """A form of degree three in two coordinates."""
    x, y = inside.unbind(-1)
    return 2 * x**3 - x**2 * y + 0.5 * y**3


def test_a_cubic_rest_in_a_plane_is_known_from_its_four_coefficients() -> None:
    writes, inside = flat_writes(60, 1)
    layer = chosen(torch.arange(60), writes, residual=2.0, degree=3, count=40)
    # Cubic forms of two coordinates have four coefficients; all further rests are known.
    assert len(layer.chosen) == 4
    rest = cubic(inside)
    known = torch.full_like(rest, torch.nan)
    known[rows_of_anchors([layer])] = rest[layer.chosen]
    correction, deviation = learn([layer], known)
    # The covariance is that of float32 writes, of entries up to the largest; four are solved for.
    allowed = 4 * 4 * layer.rounding / float(layer.own.max()) ** 0.5
    scale = (
        float(layer.own.max()) ** 0.5
        * float(rest.abs().max())
        / float(layer.own[layer.chosen].min())
    )
    assert float((correction - rest).abs().max()) <= allowed * scale
    assert bool((deviation <= 0.01 * rest.abs().max()).all())


def test_a_form_of_another_degree_is_not_learned() -> None:
    writes, inside = flat_writes(60, 1)
    layer = chosen(torch.arange(60), writes, residual=2.0, degree=3, count=40)
    square = inside.square().sum(-1)
    correction, _ = learn([layer], square)
    assert float((correction - square).abs().max()) > 0.1 * float(square.max())


def test_the_first_anchor_is_the_largest_write_and_none_repeats_another() -> None:
    draw = torch.Generator().manual_seed(2)
    writes = torch.randn(50, 24, generator=draw)
    writes[7] *= 5
    writes[8] = writes[7] * (1 - 1e-7)
    layer = chosen(torch.arange(100, 150), writes, residual=1.0, degree=3, count=10)
    rows = rows_of_anchors([layer]).tolist()
    assert rows[0] in (107, 108)
    assert not {107, 108} <= set(rows)
    assert len(set(rows)) == len(rows) == 10


def test_deviations_grow_with_the_distance_from_the_anchors() -> None:
    draw = torch.Generator().manual_seed(3)
    writes = torch.randn(200, 24, generator=draw)
    layer = chosen(torch.arange(200), writes, residual=1.0, degree=3, count=10)
    rest = torch.randn(200, generator=draw).double()
    correction, deviation = learn([layer], rest)
    others = torch.ones(200, dtype=torch.bool)
    others[layer.chosen] = False
    assert float(deviation[layer.chosen].max()) < 0.1 * float(deviation[others].min())
    assert torch.allclose(correction[layer.chosen], rest[layer.chosen], rtol=1e-3)
    # What points like nothing executed is as unknown as before.
    size = deviation / layer.own.sqrt()
    assert bool((size <= size.max()).all())
    assert float(size[others].max()) > 3 * float(size[layer.chosen].max())


def test_writes_of_zero_have_no_anchor_and_no_correction() -> None:
    layer = chosen(torch.arange(5), torch.zeros(5, 24), residual=1.0, degree=3, count=3)
    assert not len(layer.chosen)
    correction, deviation = learn([layer], torch.ones(5).double())
    assert not bool(correction.any())
    assert not bool(deviation.any())
