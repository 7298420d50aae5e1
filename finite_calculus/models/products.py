"""Hessian–vector products of directions of many layers, some hundred rows in a pass.

Models whose blocks are known in closed form take all layers of a pass together (`stairs`), on one device; any
other one goes through torch's own double derivative (`hessian`). Both give the gradient of the margin at each
layer, and the products at each layer of the directions of lower ones and of its own.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.gated_blocks import has_gated_blocks
from finite_calculus.models.hessian import gradient_graph
from finite_calculus.models.margins import Margin
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.stairs import stair_products

# Rows of one pass: products of about so many are fast, and memory grows with them.
_ROWS, _STAIR_ROWS = 64, 512


@dataclass(frozen=True, eq=False)
class LayerProducts:
    """At the layer of this place: its gradient, and H b for directions of it and of layers below.

    `first` numbers the first of these rows over all layers; `own` are those of the layer's own directions, if
    this pass holds them.
    """

    place: int
    gradient: Float[Tensor, " model"]
    first: int
    change: Float[Tensor, "rows model"]
    own: Float[Tensor, "own model"] | None


def layer_products(
    prompt: PreparedPrompt,
    margin: Margin,
    layers: Sequence[int],
    starts: Sequence[Float[Tensor, "_ model"]],
) -> Iterator[LayerProducts]:
    """Products of the directions `starts` of ascending layers, in float32.

    A layer comes once for each pass that reaches it. Together these hold the directions of it and of all
    layers below.
    """
    sizes = [len(each) for each in starts]
    begins = [0, *accumulate(sizes)]
    steps = _stairs if has_gated_blocks(prompt) else _derivatives
    for place, places, gradient, change in steps(prompt, margin, layers, starts):
        first = begins[places.start]
        begin = begins[place] - first
        own = change[begin : begin + sizes[place]] if place in places else None
        yield LayerProducts(place, gradient, first, change, own)


# A place, the places whose directions its pass holds, the gradient at it, and the products.
_Step = tuple[int, range, Tensor, Tensor]


def _stairs(
    prompt: PreparedPrompt, margin: Margin, layers: Sequence[int], starts: Sequence[Tensor]
) -> Iterator[_Step]:
    device = prompt.prefix.ids.device
    for places, above, moved in _passes([each.to(device) for each in starts], _STAIR_ROWS):
        steps = stair_products(prompt, margin, layers[above.start :], moved)
        for place, (gradient, change) in zip(reversed(above), steps, strict=True):
            yield place, places, gradient, change


def _derivatives(
    prompt: PreparedPrompt, margin: Margin, layers: Sequence[int], starts: Sequence[Tensor]
) -> Iterator[_Step]:
    with gradient_graph(prompt, margin, layers) as graph:
        gradients = [each.detach().flatten() for each in graph.gradients]
        for places, above, moved in _passes(starts, _ROWS):
            changes = graph.products(places.start, moved)
            for place, change in zip(above, changes, strict=True):
                yield place, places, gradients[place], change.detach()


def _passes(starts: Sequence[Tensor], rows: int) -> Iterator[tuple[range, range, list[Tensor]]]:
    """Neighbouring layers whose directions make a pass of about so many rows, one layer at least.

    With each, all the places that the pass reaches, and the directions there: none above its own layers.
    """
    first = 0
    while first < len(starts):
        stop, total = first + 1, len(starts[first])
        while stop < len(starts) and total + len(starts[stop]) <= rows:
            total += len(starts[stop])
            stop += 1
        above = range(first, len(starts))
        yield range(first, stop), above, [starts[n][: None if n < stop else 0] for n in above]
        first = stop
