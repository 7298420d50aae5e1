"""The premise of the bounds in half precision: products of matrices are summed in float32, and stored once.

A sum that is kept in half precision on the way loses a one beside 2²²; float32 loses none. With 2²² as one
term, −2²² as another and ones elsewhere, exactly the ones are left. Term 0 is paired with every other term,
so that every partial sum but the last has one of the two in it while ones are added. This is asked of the
products of every attention and projection, at the shapes of an executed batch, on the model's own device.

The softmax between two products takes their stored scores, is float32 inside and is stored once; and what is
compared with all of this is float64 algebra, whatever the model computes in.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from finite_calculus.models import LayerBank, LayerCapture, edited_bank
from finite_calculus.models.edits import as_tuple
from finite_calculus.models.layer import repeat_groups
from finite_calculus.models.precision import FLOAT32, FLOAT64, Precision, precision_of
from finite_calculus.models.predict import exact_response
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.sinks import sink_scores
from finite_calculus.models.softcap import capped
from finite_calculus.models.sum_order import UNIT, half_place
from native_checks.bench import Bench
from native_checks.records import GateCheck, Gathered, counted

# 2¹¹·2¹¹, 2⁻¹¹·2¹¹: factors that bfloat16 and float16 hold.
_LARGE = 2.0**11
# Probes of one product; of longer sums, evenly chosen pairs.
_MOST = 256


def sums_are_float32(bench: Bench) -> GateCheck:
    """Every product of a half precision model keeps float32 until its result is stored."""
    precision = precision_of(bench.instrument.model.dtype)
    if not precision.half:
        return counted("sums are float32", 0, f"sums of {precision.name} are not stored otherwise")
    shapes = set()
    for layer, site in zip(bench.capture.layers, bench.instrument.support.sites, strict=True):
        heads, width = layer.query.shape
        count, value_width = layer.values.shape[1:]
        linear = isinstance(site.projection, nn.Linear)
        shapes |= {("scores", heads, width, count), ("mixture", heads, count, value_width)}
        shapes.add(
            ("linear" if linear else "conv", 1, *layer.output_projection.flatten(0, 1).shape)
        )
    device = bench.ids.device
    lost = sum(
        kept_ones(_product(kind, bench.batch, heads, outputs), terms, precision, device)
        for kind, heads, terms, outputs in sorted(shapes)
    )
    reason = f"ones lost beside 2²² in {len(shapes)} kinds of products"
    return counted("sums are float32", lost, reason)


def softmax_is_float32(bench: Bench) -> GateCheck:
    """Native probabilities against a float64 softmax of the scores as the model stores them."""
    gathered = Gathered("softmax is float32")
    for replay in bench.replays:
        layer, call = replay.layer, replay.call
        if not layer.precision.half:
            continue
        with torch.no_grad():
            scores = _stored_scores(call)
        exact = torch.softmax(scores.double().cpu(), -1)[..., : replay.base.probs.shape[-1]]
        # Top taken away, exponential and its sum, quotient; then half a place of what is stored.
        keys = scores.shape[-1]
        below = (scores.amax(-1, keepdim=True) - scores).double().cpu()[..., : exact.shape[-1]]
        below = torch.where(exact > 0, below, 0.0)
        inside = exact * UNIT * (below + keys + 8) * (1 + 2.0**-10) + FLOAT32.tiny
        rounding = inside + half_place(exact + inside, layer.precision)
        gathered.add(replay.base.probs - exact, rounding, exact)
    return gathered.check(
        "roundings of a float32 softmax of the stored scores, and of storing it",
        none="the softmax of the model is its own precision, or finer",
    )


def _stored_scores(call: AttentionCall) -> Tensor:
    """The scores of the last query, (heads, keys), with every rounding of the model's attention."""
    heads = call.query.shape[1]
    keys = repeat_groups(call.key[0], heads).unsqueeze(0)
    scores = torch.matmul(call.query, keys.mT) * call.scaling
    scores = capped(scores, call.options.get("softcap"))
    if call.mask is not None:
        scores = scores + call.mask
    sinks = call.options.get("s_aux")
    scores = scores[0, :, -1]
    if sinks is None:
        return scores
    scores = torch.cat([scores, sinks.reshape(-1, 1).to(scores)], -1)
    return scores - scores.amax(-1, keepdim=True)


def algebra_is_float64(bench: Bench) -> GateCheck:
    """Predicted Δy of every edit against two softmaxes of the captured tensors in float64, subtracted."""
    gathered = Gathered("algebra is float64")
    for edits in bench.edits:
        layer = bench.capture.layer(as_tuple(edits)[0].layer)
        bank = edited_bank(layer, edits)
        response = exact_response(layer, bank, layer.readout())
        before, size, steps = _plain_readout(layer, layer.bank())
        after, edited_size, edited_steps = _plain_readout(layer, bank)
        unit = FLOAT64.unit * (steps + edited_steps)
        gathered.add(response - (after - before), unit * (size + edited_size), before)
    return gathered.check("float64 roundings of scores, exponentials and sums on either side")


def _plain_readout(layer: LayerCapture, bank: LayerBank) -> tuple[Tensor, Tensor, Tensor]:
    """y by the definition, the largest |v| of each head, and how many units of rounding it may be off by."""
    heads = layer.heads
    keys, values = (repeat_groups(x.double(), heads) for x in (bank.keys, bank.values))
    query = bank.query.double().unsqueeze(-2)
    raw = (query * keys).sum(-1) * layer.scaling
    sizes = (query * keys).abs().sum(-1) * abs(layer.scaling)
    scores = capped(raw, layer.softcap) + bank.bias.double()
    shown = layer.attended & ~bank.removed & (bank.bias > layer.precision.removing)
    scores = scores.masked_fill(~shown, -torch.inf)
    sinks = None if layer.sinks is None else layer.sinks.double()
    scores = sink_scores(scores, sinks)
    probs = torch.softmax(scores, -1)[..., : keys.shape[-2]]
    most = torch.where(shown, sizes + raw.abs() + bank.bias.double().abs(), 0.0).amax(-1)
    steps = 8 * ((keys.shape[-1] + 4) * (most + 1) + keys.shape[-2] + 16)
    largest = torch.where(shown.unsqueeze(-1), values.abs(), 0.0).amax((-2, -1))
    output = (probs.unsqueeze(-1) * values).sum(-2)
    return output, largest.unsqueeze(-1), steps.unsqueeze(-1)


def kept_ones(
    multiply: Callable[[Tensor, float], Tensor],
    terms: int,
    precision: Precision,
    device: torch.device,
) -> int:
    """How many probes of sums of so many terms come back without all of their ones.

    `multiply(left, right)` returns Σ left·right for each row of probes, (probes, places).
    """
    others = range(1, terms, max(1, terms // _MOST))
    probes = torch.full((len(others), terms), 1 / _LARGE)
    probes[:, 0] = _LARGE
    probes[torch.arange(len(others)), list(others)] = -_LARGE
    answers = multiply(probes.to(device, precision.dtype), _LARGE)
    return int((answers != torch.tensor(terms - 2.0).to(answers)).any(-1).sum())


def _product(kind: str, rows: int, heads: int, outputs: int) -> Callable[[Tensor, float], Tensor]:
    """The product of an executed batch: a probe in every row and head, as many of them at once as fit."""

    def multiply(probes: Tensor, factor: float) -> Tensor:
        count, terms = probes.shape
        places = rows * heads
        padded = probes[torch.arange(-(-count // places) * places).clamp(max=count - 1)]
        answers = []
        for chunk in padded.split(places):
            if kind in ("linear", "conv"):
                weight = chunk.new_full((outputs, terms), factor)
                left = chunk.unsqueeze(1)
                answers.append(
                    nn.functional.linear(left, weight).squeeze(1)
                    if kind == "linear"
                    else torch.addmm(chunk.new_zeros(outputs), chunk, weight.mT.contiguous())
                )
                continue
            left = chunk.view(rows, heads, 1, terms)
            # Keys are stored by columns, values by terms.
            shape = (outputs, terms) if kind == "scores" else (terms, outputs)
            right = chunk.new_full((rows, heads, *shape), factor)
            right = right.mT if kind == "scores" else right
            answers.append(torch.matmul(left, right).reshape(places, -1))
        return torch.cat(answers)[:count]

    return multiply
