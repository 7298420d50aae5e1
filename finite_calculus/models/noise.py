"""How far rounding may move a margin: a first-order, probabilistic budget, and the noise floor of an effect.

One pass with a zero leaf at the inputs and outputs of every leaf module and at every attention output, and
one backward pass: the gradient of the margin at each tensor times what that tensor may be rounded by. Sums
are rounded in float32, and what is stored in the model's precision. Rounding errors count as independent and
centred, so that contributions add in squares, and the terms of a sum as having no common sign, so that it
errs by u·Σ|terms| whatever its length (Higham and Mary, "Sharper probabilistic backward error analysis for
basic linear algebra kernels with random data", SIAM J. Sci. Comput. 2020); λ = 8 standard deviations are
allowed.

It is not a worst case, it holds to first order, and its sizes and gradients are those of the unedited
pass. The local bounds of `finite_calculus.models.bounds` need none of these assumptions.

An executed effect is the difference of two margins over one prefix, whose bits both share: only the passes of
the last token round on their own. Below `noise_floor` an effect is not told from rounding: "not resolved".
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from finite_calculus.models.layer import repeat_groups
from finite_calculus.models.margins import Margin
from finite_calculus.models.precision import Precision, precision_of, widened
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.session import AttentionCall, Session, active, by_module, keep_call
from finite_calculus.models.support import Site

_CONFIDENCE = 8.0
# An effect of rounding alone exceeds the floor with this probability, if roundings are independent.
FLOOR_DOUBT = 1e-3
# Elementwise operations in a row between two modules, or inside a norm or an activation; in half precision
# those that store what they made.
_OPERATIONS, _STORES = 3, 2


@dataclass(eq=False)
class _Trace:
    """Zero leaves of one pass and, for each, the spread of its rounding."""

    leaves: list[Tensor] = field(default_factory=list)
    spreads: list[Tensor] = field(default_factory=list)

    def add(self, tensor: Tensor, spread: Tensor) -> Tensor:
        zero = torch.zeros_like(tensor, requires_grad=True)
        self.leaves.append(zero)
        self.spreads.append(spread)
        return tensor + zero

    def total(self, margin: Tensor) -> float:
        """√Σ(g·spread)² over all leaves."""
        gradients = torch.autograd.grad(margin, self.leaves, allow_unused=True)
        squares = [
            float((gradient.double() * spread.double()).square().sum())
            for gradient, spread in zip(gradients, self.spreads, strict=True)
            if gradient is not None
        ]
        return sum(squares) ** 0.5


def margin_budget(
    model: PreTrainedModel,
    sites: tuple[Site, ...],
    ids: Tensor,
    margin: Margin,
) -> float:
    """λ√Σ(g·spread)²: what the margin of one pass over `ids` may be rounded by."""

    def run() -> Tensor:
        logits = model(input_ids=ids.unsqueeze(0), use_cache=False).logits[0, -1]
        return margin.of(widened(logits))

    return _CONFIDENCE * _deviation(model, sites, run)


def noise_floor(prompt: PreparedPrompt, value: Callable[[Tensor], Tensor]) -> float:
    """What rounding alone may make of an effect: two passes over one prefix, their logits read by `value`.

    A rounding counts as uniform within its half place, so that its variance is a third of the square of that,
    and the sum of many as normal.
    """

    def run() -> Tensor:
        return value(widened(prompt.run_queries()[0]))

    one = _deviation(prompt.model, prompt.sites, run)
    return NormalDist().inv_cdf(1 - FLOOR_DOUBT / 2) * (2 / 3) ** 0.5 * one


def _deviation(model: PreTrainedModel, sites: tuple[Site, ...], run: Callable[[], Tensor]) -> float:
    """√Σ(g·spread)² of a number that one pass leads to."""
    trace, precision = _Trace(), precision_of(model.dtype).coarsest

    def observe(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        return trace.add(output, attention_spread(call, precision).reshape(output.shape))

    session = Session(by_module(sites), keep_call, observe)
    with torch.enable_grad(), active(session), _hooks(model, trace, precision):
        return trace.total(run())


@torch.no_grad()
def attention_spread(call: AttentionCall, precision: Precision) -> Tensor:
    """Spread of y = Σpv, of shape (1, queries, heads, width).

    A score errs by (2 + p)·u·Σ|q||k|·scaling, p for the angles p·ω ≤ p that are rounded to float32, which
    moves y by p_j(v_j − y) times that; Σpv adds its own. In half precision what is stored errs besides: the
    score, its scaled twin and the terms of both rotations, every probability, and y.
    """
    query, heads = widened(call.query[0]), call.query.shape[1]
    keys, values = (repeat_groups(widened(x[0]), heads) for x in (call.key, call.value))
    products = query @ keys.mT * call.scaling
    scores = products
    if call.mask is not None:
        scores = scores + widened(call.mask[0, :, :, : scores.shape[-1]])
    probs, first = torch.softmax(scores, -1), keys.shape[-2] - query.shape[-2]
    steps = 2 + first + torch.arange(query.shape[-2], device=query.device).unsqueeze(-1)
    fine = precision.summing.unit
    moved = fine * (query.abs() @ keys.abs().mT) * abs(call.scaling) * steps
    apart = values.unsqueeze(-3) - (probs @ values).unsqueeze(-2)
    own = fine * _OPERATIONS * (probs @ values.abs())
    if precision.half:
        turned = (query.square() @ keys.square().mT).sqrt() * abs(call.scaling)
        moved = moved + precision.unit * (2 * products.abs() + 2 * _STORES * turned)
        kept = (probs.square() @ values.square()).sqrt() + (probs @ values).abs()
        own = own + precision.unit * kept
    through = ((probs * moved).unsqueeze(-1) * apart).norm(dim=-2)
    return (through + own).movedim(0, 1).unsqueeze(0)


@torch.no_grad()
def module_spread(
    module: nn.Module, inputs: Tensor, output: Tensor, precision: Precision
) -> Tensor:
    """Spread of a leaf module's output: 2u·Σ|x||W| of a linear map, a few units of anything else.

    A norm divides by the root of a sum of n squares, which do have a common sign: √n/2 for it. Fused
    experts are no linear map: √n of their largest output, n being all their sums in a row. In half precision
    sums have the unit of float32, and what is stored has its own.
    """
    inputs, output, fine = widened(inputs), widened(output), precision.summing.unit
    weight = getattr(module, "weight", None)
    if isinstance(weight, Tensor) and weight.ndim == 2:
        rows = widened(weight if isinstance(module, nn.Linear) else weight.mT)
        summed = 2 * fine * nn.functional.linear(inputs.abs(), rows.abs())
        return summed + 2 * precision.unit * output.abs() if precision.half else summed
    terms = sum(p.shape[-1] + p.shape[-2] for p in module.parameters() if p.ndim > 1)
    if terms:
        units = terms**0.5 * fine + (_STORES * precision.unit if precision.half else 0.0)
        return units * output.abs().amax(-1, keepdim=True).expand_as(output)
    operations = _STORES if precision.half else _OPERATIONS
    return (operations * precision.unit + fine * output.shape[-1] ** 0.5 / 2) * output.abs()


@contextmanager
def _hooks(model: nn.Module, trace: _Trace, precision: Precision) -> Iterator[None]:
    """Leaves at inputs and outputs of all leaf modules that take and return floating tensors."""
    operations = _STORES if precision.half else _OPERATIONS

    def before(module: nn.Module, args: Any) -> Any:
        if not args or not _floating(args[0]):
            return None
        units = operations * precision.unit
        return trace.add(args[0], units * widened(args[0].detach().abs())), *args[1:]

    def after(module: nn.Module, args: Any, output: Any) -> Any:
        if not args or not _floating(args[0]) or not _floating(output):
            return None
        return trace.add(output, module_spread(module, args[0], output, precision))

    with ExitStack() as stack:
        for module in model.modules():
            exact = isinstance(module, nn.Embedding)  # a lookup rounds nothing
            if not exact and next(module.children(), None) is None:
                stack.callback(module.register_forward_pre_hook(before).remove)
                stack.callback(module.register_forward_hook(after).remove)
        yield


def _floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
