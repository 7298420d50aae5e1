"""How far rounding may move a margin: a first-order, probabilistic budget of a whole forward pass.

One pass over all tokens with a zero leaf at the inputs and outputs of every leaf module and at every
attention output, and one backward pass: the gradient of the margin at each tensor times what that
tensor may be rounded by. Rounding errors count as independent and centred, so that contributions add
in squares, and the terms of a sum as having no common sign, so that it errs by u·Σ|terms| whatever its
length (Higham and Mary, "Sharper probabilistic backward error analysis for basic linear algebra
kernels with random data", SIAM J. Sci. Comput. 2020); λ = 8 standard deviations are allowed.

It is not a worst case, it holds to first order, and its sizes and gradients are those of the unedited
pass. The local bounds of `finite_calculus.models.bounds` need none of these assumptions.
"""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from finite_calculus.models import Instrument, Margin
from finite_calculus.models.layer import repeat_groups
from finite_calculus.models.session import AttentionCall, Session, active, by_module, keep_call
from finite_calculus.models.support import Site

_UNIT = torch.finfo(torch.float32).eps / 2
_CONFIDENCE = 8.0
# Elementwise operations in a row between two modules, or inside a norm or an activation.
_OPERATIONS = 3


@dataclass(eq=False)
class _Trace:
    """Zero leaves of one pass and, for each, the spread of its rounding in units of u."""

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


def margin_budget(instrument: Instrument, ids: Tensor, margin: Margin) -> float:
    """λu·√Σ(g·spread)²: what the margin of one pass over `ids` may be rounded by."""
    trace = _Trace()

    def observe(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        return trace.add(output, attention_spread(call).reshape(output.shape))

    session = Session(by_module(instrument.support.sites), keep_call, observe)
    with torch.enable_grad(), active(session), _hooks(instrument.model, trace):
        logits = instrument.model(input_ids=ids.unsqueeze(0), use_cache=False).logits[0, -1]
        return _CONFIDENCE * _UNIT * trace.total(margin.of(logits))


@torch.no_grad()
def attention_spread(call: AttentionCall) -> Tensor:
    """Spread of y = Σpv, of shape (1, queries, heads, width).

    A score errs by (2 + p)·Σ|q||k|·scaling, p for the angles p·ω ≤ p that are rounded to float32, which
    moves y by p_j(v_j − y) times that; Σpv adds its own.
    """
    query, heads = call.query[0], call.query.shape[1]
    keys, values = repeat_groups(call.key[0], heads), repeat_groups(call.value[0], heads)
    scores = query @ keys.mT * call.scaling
    if call.mask is not None:
        scores = scores + call.mask[0, :, :, : scores.shape[-1]]
    probs = torch.softmax(scores, -1)
    steps = 2 + torch.arange(query.shape[-2], device=query.device).unsqueeze(-1)
    moved = (query.abs() @ keys.abs().mT) * abs(call.scaling) * steps
    apart = values.unsqueeze(-3) - (probs @ values).unsqueeze(-2)
    through = ((probs * moved).unsqueeze(-1) * apart).norm(dim=-2)
    return (through + _OPERATIONS * (probs @ values.abs())).movedim(0, 1).unsqueeze(0)


@torch.no_grad()
def module_spread(module: nn.Module, inputs: Tensor, output: Tensor) -> Tensor:
    """Spread of a leaf module's output: 2·Σ|x||W| of a linear map, a few units of anything else.

    A norm divides by the root of a sum of n squares, which do have a common sign: √n/2 for it. Fused
    experts are no linear map: √n of their largest output, n being all their sums in a row.
    """
    weight = getattr(module, "weight", None)
    if isinstance(weight, Tensor) and weight.ndim == 2:
        rows = weight if isinstance(module, nn.Linear) else weight.mT
        return 2 * nn.functional.linear(inputs.abs(), rows.abs())
    terms = sum(p.shape[-1] + p.shape[-2] for p in module.parameters() if p.ndim > 1)
    if terms:
        return terms**0.5 * output.abs().amax(-1, keepdim=True).expand_as(output)
    return (_OPERATIONS + output.shape[-1] ** 0.5 / 2) * output.abs()


@contextmanager
def _hooks(model: nn.Module, trace: _Trace) -> Iterator[None]:
    """Leaves at inputs and outputs of all leaf modules that take and return floating tensors."""

    def before(module: nn.Module, args: Any) -> Any:
        if not args or not _floating(args[0]):
            return None
        return trace.add(args[0], _OPERATIONS * args[0].detach().abs()), *args[1:]

    def after(module: nn.Module, args: Any, output: Any) -> Any:
        if not args or not _floating(args[0]) or not _floating(output):
            return None
        return trace.add(output, module_spread(module, args[0], output))

    with ExitStack() as stack:
        for module in model.modules():
            exact = isinstance(module, nn.Embedding)  # a lookup rounds nothing
            if not exact and next(module.children(), None) is None:
                stack.callback(module.register_forward_pre_hook(before).remove)
                stack.callback(module.register_forward_hook(after).remove)
        yield


def _floating(value: Any) -> bool:
    return isinstance(value, Tensor) and value.is_floating_point()
