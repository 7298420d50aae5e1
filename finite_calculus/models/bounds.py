"""Derived bounds on what native attention may differ by from exact arithmetic, in the precision of its model.

The computation is followed stage by stage on exact values: scores, softmax, mixture, projection.
Each rounding is charged half a last place of the number that it rounds, in the precision in which that is
stored or summed (`finite_calculus.models.precision`). Sums are charged for the orders that
probes revealed (`finite_calculus.models.kernels`), for every order where none is known, and every elementary
function its budget. Of q·k, whose factors are known to the last bit, the sums themselves are formed again in
these orders (`finite_calculus.models.score_products`): what they make of y is then a number, and everything
after them is bounded from there.

Two bounds come out: a sure one, which adds all roundings up, and a probable one, which adds their squares and
is exceeded with probability `DOUBT` per number if roundings are independent and centred. A breach of the
first is an error; one of the second is a warning.

Where the executed y is known, its residual is measured in float64 and carried through W_o exactly, so that
only the projection is left to be bounded: the error of a write is then what its y brings, which is held to
the bound of y, and what the projection adds. The rounded sum of a softmax puts one factor on all of a head's
y; it too is read off the executed y, as far as the other roundings leave it open. What is bounded is local: y
and the projected write of one layer, given its query, keys and values. Nothing here speaks of what happens
downstream of the write.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models.kernels import Kernels
from finite_calculus.models.layer import LayerBank, LayerCapture, head_products
from finite_calculus.models.precision import FLOAT32
from finite_calculus.models.query_bounds import (
    query_error as query_error,
    rotation_error as rotation_error,
)
from finite_calculus.models.score_products import (
    MOST_TERMS,
    Products,
    edited_products,
    score_products,
)
from finite_calculus.models.sinks import null_sink
from finite_calculus.models.softcap import capped
from finite_calculus.models.sum_order import (
    UNIT,
    Spread,
    any_order_spread,
    half_place,
    stored,
    sum_spread,
)
from finite_calculus.readout import Readout
from finite_calculus.rounding import ULPS

# torch's vectorised softmax may use a faster exponential (2 ulp) and multiply by a reciprocal.
_EXPONENTIAL = 3.0 * 2 * UNIT
_QUOTIENT = 3.0 * UNIT


@dataclass(frozen=True, eq=False)
class LocalError:
    """Bounds on the native error of y and of the projected write, entry by entry: sure and probable."""

    output: Float[Tensor, "heads value_width"]
    write: Float[Tensor, " model"]
    probable_output: Float[Tensor, "heads value_width"]
    probable_write: Float[Tensor, " model"]


@dataclass(frozen=True, eq=False)
class Stages:
    """Roundings of one readout: of y, of its projection, and what y's own residual brings to the write.

    `products` are q·k as the kernels formed them, which an edit of other keys shares, and `known` is what
    they alone make of y, minus y; `output` are all other roundings. `carried` is (ŷ − y)W_o with the measured
    residual of the executed ŷ, cut off at the sure bound of y so that a wrong y excuses no write; `likely` is
    cut off at the probable one. `readout` is the exact one.
    """

    readout: Readout
    products: Products
    known: Float[Tensor, "heads value_width"]
    output: Spread
    projection: Spread
    carried: Float[Tensor, " model"]
    likely: Float[Tensor, " model"]


def local_error(
    layer: LayerCapture,
    bank: LayerBank | None = None,
    *,
    kernels: Kernels | None = None,
    executed: Float[Tensor, "heads value_width"] | None = None,
) -> LocalError:
    """Bounds on |y_native − y| and |o_native − o| of one readout; the second includes the first.

    `kernels` say what it was computed with, and `executed` is the y that came out, if it is known.
    """
    if executed is not None:
        stages = readout_stages(layer, bank, kernels=kernels, executed=executed)
        write = stages.carried.abs() + stages.projection.sure
        probable = stages.likely.abs() + stages.projection.probable
        known, output = stages.known.abs(), stages.output
        return LocalError(known + output.sure, write, known + output.probable, probable)
    bank = layer.bank() if bank is None else bank
    known, y, output = _unmeasured(layer, bank, kernels)
    weight = layer.output_projection.double()
    through = torch.einsum("hv,hvm->m", known, weight).abs()
    # The errors of one head's entries share its probabilities; those of different heads are independent.
    heads = torch.einsum("hv,hvm->hm", output.square.sqrt(), weight.abs())
    carried = Spread(torch.einsum("hv,hvm->m", output.sure, weight.abs()), heads.square().sum(0))
    write = carried + _projection_spread(layer, y, kernels, errors=output.sure)
    known = known.abs()
    return LocalError(
        known + output.sure,
        through + write.sure,
        known + output.probable,
        through + write.probable,
    )


def output_error(
    layer: LayerCapture, bank: LayerBank | None = None, *, kernels: Kernels | None = None
) -> Float[Tensor, "heads value_width"]:
    """Sure bound on |y_native − y| alone."""
    known, _, output = _unmeasured(layer, layer.bank() if bank is None else bank, kernels)
    return known.abs() + output.sure


def write_error(
    layer: LayerCapture, bank: LayerBank | None = None, *, kernels: Kernels | None = None
) -> Float[Tensor, " model"]:
    """Sure bound on |o_native − o| alone."""
    return local_error(layer, bank, kernels=kernels).write


def log_weight_error(
    layer: LayerCapture, bank: LayerBank | None = None, *, kernels: Kernels | None = None
) -> Float[Tensor, "heads keys"]:
    """Sure bound on the error of log p_native − log p, up to what all keys of a head have in common.

    Not counted is what storing p with fewer digits costs (`stored_weight_error`).
    """
    bank = layer.bank() if bank is None else bank
    products = score_products(layer, bank, kernels)
    exact = head_products(bank.query.double(), bank.keys.double())
    known = Spread.of((products.values - exact).abs())
    scores = _score_spread(layer, bank, Products(exact, products.spread + known))
    exponent = _exponent_spread(layer, layer.readout(bank), scores).sure
    return exponent - math.log1p(-_EXPONENTIAL) - math.log1p(-_QUOTIENT)


def stored_weight_error(layer: LayerCapture, probs: Tensor) -> Tensor:
    """What storing probabilities in the model's precision may cost each; nothing where that is float32."""
    if not layer.precision.half:
        return torch.zeros_like(probs)
    return half_place(probs, layer.precision)


def readout_stages(
    layer: LayerCapture,
    bank: LayerBank | None = None,
    *,
    kernels: Kernels | None,
    executed: Float[Tensor, "heads value_width"],
    unedited: Stages | None = None,
) -> Stages:
    """Roundings of a readout whose y was executed, stage by stage.

    `unedited` are those of the layer's own bank by the same kernels: keys that the edit leaves share them.
    """
    bank = layer.bank() if bank is None else bank
    if unedited is None or not torch.equal(bank.query, layer.query):
        products = score_products(layer, bank, kernels)
    else:
        products = edited_products(layer, bank, kernels, unedited.products)
    readout = layer.readout(bank)
    y, rest, common = _output_spread(layer, bank, kernels, products)
    known, residual = y - readout.output, executed.double() - y
    output = rest + _measured(common, residual, y, rest)
    sure = known + residual.clamp(-output.sure, output.sure)
    likely = known + residual.clamp(-output.probable, output.probable)
    weight = layer.output_projection.double()
    return Stages(
        readout,
        products,
        known,
        output,
        _projection_spread(layer, executed.double(), kernels),
        torch.einsum("hv,hvm->m", sure, weight),
        torch.einsum("hv,hvm->m", likely, weight),
    )


def _unmeasured(
    layer: LayerCapture, bank: LayerBank, kernels: Kernels | None
) -> tuple[Tensor, Tensor, Spread]:
    """What the products alone make of y, minus y; their y; and all other roundings of a y not seen."""
    y, rest, common = _output_spread(layer, bank, kernels, score_products(layer, bank, kernels))
    return y - layer.readout(bank).output, y, rest + common


def _output_spread(
    layer: LayerCapture, bank: LayerBank, kernels: Kernels | None, products: Products
) -> tuple[Tensor, Spread, Spread]:
    """y of these products, in float64, and all roundings after them: what scales all of a head's y last.

    With weights p(1 + ρ) in place of p, y moves by Σpρ(v − y)/Σp(1 + ρ), exactly, and Σp(1 + ρ) ≥ Σp·e^{−η}
    if no exponent is off by more than η. A rounded sum of weights scales y, each quotient moves its own term,
    as does storing it with fewer digits, and the mixture adds its own.
    """
    readout = layer.readout(bank, products=products.values)
    exponent = _exponent_spread(layer, readout, _score_spread(layer, bank, products))
    relative = _weight_spread(exponent)
    attended = readout.attended.unsqueeze(-1)
    probs = readout.probs.unsqueeze(-1)
    least = (readout.probs * torch.exp(-exponent.sure)).sum(-1) * (1 - _EXPONENTIAL)
    least = least[..., None, None]
    centred = torch.where(attended, readout.centred, 0.0)
    terms = torch.where(attended, probs * readout.values, 0.0)
    moved = Spread(relative.sure.unsqueeze(-1), relative.square.unsqueeze(-1))
    keys = readout.keys
    # What the weights move is scaled with y.
    moved = moved.times(probs * centred * ((1 + 2 * keys * UNIT) / least)).summed(-2)
    # Weights are summed in any order; worst is one that adds the largest first.
    largest = readout.probs.sort(-1, descending=True).values.cumsum(-1)[..., 1:]
    order = largest.sum(-1, keepdim=True) * UNIT / (1 - keys * UNIT)
    squares = largest.square().sum(-1, keepdim=True) * UNIT**2
    # How much larger than p a native weight may be, by its key, and than all of a head's.
    drift = (1 + relative.sure.unsqueeze(-1)) / least * (1 + 2 * keys * UNIT) * (1 + _QUOTIENT) - 1
    drift = torch.where(attended, drift, 0.0)
    common = Spread(order * readout.output.abs(), squares * readout.output.square())
    quotients = Spread.of(_QUOTIENT * terms.abs()).summed(-2)
    # Weights below the normal numbers may be lost altogether.
    lost = FLOAT32.tiny * centred.abs().sum(-2)
    most = drift.amax(-2)
    own = quotients.times(1 + most) + common.times(most) + Spread.of(lost)
    if layer.precision.half:
        kept = stored_weight_error(layer, probs * (1 + drift))
        own = own + Spread.of(torch.where(attended, kept * readout.values.abs(), 0.0)).summed(-2)
    rest = moved + own + _mixture_spread(layer, bank, terms, drift, kernels)
    return readout.output, _known(rest), _known(common)


def _measured(common: Spread, residual: Tensor, y: Tensor, rest: Spread) -> Spread:
    """The factor on all of a head's y, as far as its residual and the other roundings leave it open.

    With r = ηy + e and |e| at most `rest`, every entry puts η between (r − rest)/y and (r + rest)/y. Where
    no η fits them all, there is none, and then some entry is beyond `rest` alone.
    """
    size, along = y.abs(), y.sign() * residual
    factor = (common.sure / size).nan_to_num(0.0, posinf=math.inf).amax(-1, keepdim=True)
    least = torch.where(size > 0, (along - rest.sure) / size, -torch.inf).amax(-1, keepdim=True)
    most = torch.where(size > 0, (along + rest.sure) / size, torch.inf).amin(-1, keepdim=True)
    least, most = least.maximum(-factor), most.minimum(factor)
    reach = torch.where(least <= most, torch.maximum(least.abs(), most.abs()), 0.0)
    measured = torch.where(size > 0, reach * size, 0.0)
    return Spread(torch.minimum(common.sure, measured), common.square)


def _known(spread: Spread) -> Spread:
    """Infinite where exponents are off by so much that nothing is known."""
    infinite = spread.sure.isnan() | spread.square.isnan()
    return Spread(
        spread.sure.masked_fill(infinite, torch.inf), spread.square.masked_fill(infinite, torch.inf)
    )


def _score_spread(layer: LayerCapture, bank: LayerBank, products: Products) -> Spread:
    """Roundings of cap(q·k·c) + bias in every head, for each key, with those of q·k that are not known."""
    query, keys, precision = bank.query.double(), bank.keys.double(), layer.precision
    raw, spread = products.values, products.spread
    moved = (bank.query - layer.query).double().abs()
    if bool(moved.any()):
        # An edit of the query is added to the row's own: three roundings of q and one of the increment.
        rounding = 4 * precision.summing.unit * (query.abs() + moved)
        squares = head_products(rounding.square(), keys.square())
        spread = spread + Spread(head_products(rounding, keys.abs()), squares)
    scaling = layer.scaling
    if precision.summing is FLOAT32:
        scaling = float(torch.tensor(layer.scaling, dtype=torch.float32))
    gap = Spread.of(raw.abs() * abs(scaling - layer.scaling))
    scores = raw * scaling
    spread = spread.times(scaling) + gap
    if math.frexp(scaling)[0] != 0.5:  # a power of two moves the exponent alone
        spread = spread + Spread.of(half_place(scores.abs() + spread.sure, precision))
    if layer.softcap is not None:
        # |tanh'| ≤ 1: what came in goes out, with a quotient, a tanh and a product of its own.
        scores = capped(scores, layer.softcap)
        ulps = 2 * precision.unit * (1 + (1 if precision.half else ULPS["tanh"]))
        spread = spread + Spread.of(
            2 * precision.unit * (raw * scaling).abs() + ulps * (scores.abs() + spread.sure)
        )
    biased = (scores + bank.bias.double()).abs() + spread.sure
    spread = spread + Spread.of(torch.where(bank.bias != 0, half_place(biased, precision), 0.0))
    if precision is not precision.coarsest:
        # The softmax of a float64 model takes float32.
        spread = spread + Spread.of(half_place(biased, precision.coarsest))
    return spread


def _exponent_spread(layer: LayerCapture, readout: Readout, scores: Spread) -> Spread:
    """Roundings of s − top, by key; none at keys that are not attended to."""
    keys = readout.attended[..., : scores.sure.shape[-1]]
    sure = null_sink(torch.where(keys, scores.sure, 0.0), layer.sinks)
    square = null_sink(torch.where(keys, scores.square, 0.0), layer.sinks)
    below = readout.log_probs - readout.log_probs.amax(-1, keepdim=True)
    below = torch.where(readout.attended, below.abs(), 0.0)
    # The computed top is the score of some key, so it is off by no more than the largest error.
    below = below + sure + sure.amax(-1, keepdim=True)
    exponent = Spread(sure, square) + Spread.of(half_place(below))
    if layer.sinks is not None and layer.precision.half:
        # Families with sinks take the top away before the softmax, and store what is left.
        exponent = exponent + Spread.of(half_place(below, layer.precision))
    return exponent


def _weight_spread(exponent: Spread) -> Spread:
    """Relative roundings of the weights e^{s − top}, from those of their exponents."""
    growth = torch.expm1(exponent.sure)
    slope = torch.where(exponent.sure > 0, growth / exponent.sure, 1.0)
    return Spread(growth, exponent.square * slope.square()) + Spread.of(_EXPONENTIAL * (1 + growth))


def _mixture_spread(
    layer: LayerCapture,
    bank: LayerBank,
    terms: Tensor,
    drift: Float[Tensor, "heads keys 1"],
    kernels: Kernels | None,
) -> Spread:
    """Roundings of Σpv, (heads, value width), from its terms, (heads, keys, value width)."""
    (heads, _, width), (groups, keys, _) = terms.shape, bank.values.shape
    grown, off = terms.abs() * (1 + drift), (drift * terms.abs()).sum(-2)
    orders = None
    if kernels is not None and terms.numel() <= MOST_TERMS and keys > 1:
        orders = kernels.mixture_orders(heads, groups, keys, width)
    if orders is None or kernels is None:
        precision, total = layer.precision, grown.sum(-2)
        spread = any_order_spread(total, grown.square().sum(-2), keys, precision)
        spread = stored(spread, terms.sum(-2).abs() + off, precision)
        if precision.half and kernels is not None and kernels.patch is not None:
            # On the shared path the sums over prefix and patch are stored before they are added.
            apart = terms.new_zeros(terms.shape[1], dtype=torch.bool)
            apart[list(kernels.touched)] = True
            for part in (apart, ~apart) if kernels.touched else (~apart,):
                sums = (terms * part.unsqueeze(-1)).sum(-2).abs() + off + spread.sure
                spread = spread + Spread.of(half_place(sums, precision))
        return spread
    # A sink's null value has no place in the product.
    terms, drift = terms[:, :keys].mT, drift[:, :keys].mT
    if not kernels.touched:
        # On the shared path, a row without columns of its own gets an exact zero from the patch.
        return sum_spread(terms, orders, errors=drift * terms.abs())
    # There the touched columns are summed apart, in any order, and added at the end; those of other rows
    # weigh nothing here, and adding a zero is exact.
    touched = torch.zeros(keys, dtype=torch.bool)
    touched[list(kernels.touched)] = True
    apart = torch.where(touched, terms, 0.0) * (1 + drift)
    rest = torch.where(touched, 0.0, terms)
    size = terms.sum(-1).abs() + ((drift + keys * UNIT) * terms.abs()).sum(-1)
    return (
        sum_spread(rest, orders, errors=drift * rest.abs())
        + any_order_spread(apart.abs().sum(-1), apart.square().sum(-1), len(kernels.touched))
        + Spread.of(half_place(size * (1 + 2 * UNIT)))
    )


def _projection_spread(
    layer: LayerCapture,
    y: Float[Tensor, "heads value_width"],
    kernels: Kernels | None,
    *,
    errors: Float[Tensor, "heads value_width"] | None = None,
) -> Spread:
    """Roundings of the projection of y, which may be off by `errors`, and of its bias."""
    # Formed inputs by outputs, as the weight lies in memory and as sums are followed.
    weight = layer.output_projection.double().flatten(0, 1)
    terms = (weight * y.reshape(-1, 1)).mT
    weight = weight.mT
    off = None if errors is None else weight.abs() * errors.reshape(-1)
    if layer.output_bias is not None:
        terms = torch.cat([terms, layer.output_bias.double().unsqueeze(-1)], -1)
        off = None if off is None else torch.nn.functional.pad(off, (0, 1))
    orders = None
    if kernels is not None and terms.numel() <= MOST_TERMS:
        outputs, inputs = weight.shape
        orders = kernels.write_orders(inputs, outputs, bias=layer.output_bias is not None)
    if orders is not None:
        return sum_spread(terms, orders, errors=off)
    off = torch.zeros_like(terms) if off is None else off
    sizes, precision = terms.abs() + off, layer.precision
    squares = sizes.square().sum(-1)
    spread = any_order_spread(sizes.sum(-1), squares, sizes.shape[-1], precision)
    apart = off.sum(-1)
    if layer.output_bias is not None:
        # The product may be stored before the bias is added.
        spread = stored(spread, terms[..., :-1].sum(-1).abs() + apart, precision)
    return stored(spread, terms.sum(-1).abs() + apart, precision)
