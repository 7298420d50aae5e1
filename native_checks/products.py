"""The premise of the probed bounds: attention and projection multiply by the products that are probed.

`finite_calculus.models.kernels` probes one product of a row's and head's query with its keys, one of its
probabilities with its values, and one of all rows' y with W_o. Here the operators that torch really runs
inside each attention and each projection are recorded, at their shapes and layouts, and must be
these and no others.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from finite_calculus.models.kernels import Kernels
from finite_calculus.models.session import AttentionCall, Session, active, by_module
from finite_calculus.models.support import Site
from native_checks.bench import Bench
from native_checks.records import GateCheck, counted

# Operators that sum products; whatever torch calls a matrix product ends in one of these.
_PRODUCTS = frozenset(["mm", "addmm", "bmm", "baddbmm", "mv", "addmv", "dot", "vdot", "linear"])
Shapes = tuple[tuple[int, ...], tuple[int, ...]]


@dataclass(eq=False)
class _Recorder(TorchDispatchMode):
    """Shapes of the products that run while a place is named, and whether their right factor is packed."""

    place: tuple[str, int] | None = None
    products: dict[tuple[str, int], list[tuple[Shapes, bool]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None) -> Any:
        name = func.overloadpacket.__name__
        if self.place is not None and name in _PRODUCTS:
            left, right = [x for x in args if isinstance(x, Tensor) and x.ndim > 1][-2:]
            packed = right.is_contiguous() or right.mT.is_contiguous()
            shapes = (tuple(left.shape), tuple(right.shape))
            self.products.setdefault(self.place, []).append((shapes, packed))
        return func(*args, **(kwargs or {}))


def products_are_as_probed(bench: Bench) -> GateCheck:
    """Inside every attention run q·k and Σpv of each row and head, inside every projection yW_o."""
    sites, rows = bench.instrument.support.sites, bench.batch
    prompt = bench.instrument.prompt(bench.ids)
    recorder = _Recorder()
    expected: dict[tuple[str, int], tuple[list[Shapes], bool]] = {}

    def enter(site: Site, call: AttentionCall) -> AttentionCall:
        kernels = Kernels.of_call(site.projection, call)
        packed = kernels is not None and kernels.packed
        expected["attention", site.layer] = (_attention_shapes(call), packed)
        recorder.place = ("attention", site.layer)
        return call

    def leave(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        recorder.place = None
        return output

    for site in sites:
        expected["projection", site.layer] = ([_projection_shapes(site.projection, rows)], False)
    session = Session(by_module(sites), enter, leave)
    with torch.no_grad(), active(session), _projections(sites, recorder), recorder:
        prompt.run_last(rows=rows)
    others = sum(
        [shapes for shapes, _ in recorder.products.get(place, [])] != shapes_of_place
        or (packed and not all(is_packed for _, is_packed in recorder.products[place]))
        for place, (shapes_of_place, packed) in expected.items()
    )
    return counted(
        "products are as probed",
        others,
        f"of {len(expected)} attentions and projections that multiply otherwise",
    )


def _attention_shapes(call: AttentionCall) -> list[Shapes]:
    rows, heads, queries, width = call.query.shape
    keys, value_width = call.value.shape[2:]
    batch = rows * heads
    return [
        ((batch, queries, width), (batch, width, keys)),
        ((batch, queries, keys), (batch, keys, value_width)),
    ]


def _projection_shapes(projection: nn.Module, rows: int) -> Shapes:
    weight = projection.get_parameter("weight")
    inputs, outputs = weight.shape[::-1] if isinstance(projection, nn.Linear) else weight.shape
    return (rows, inputs), (inputs, outputs)


@contextmanager
def _projections(sites: tuple[Site, ...], recorder: _Recorder) -> Iterator[None]:
    """A block in which the recorder knows when a projection runs."""

    def mark(place: tuple[str, int] | None) -> Callable[..., None]:
        def hook(*arguments: Any) -> None:
            recorder.place = place

        return hook

    with ExitStack() as stack:
        for site in sites:
            before = mark(("projection", site.layer))
            stack.callback(site.projection.register_forward_pre_hook(before).remove)
            stack.callback(site.projection.register_forward_hook(mark(None)).remove)
        yield
