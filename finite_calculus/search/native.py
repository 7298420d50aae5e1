"""The model's own attention weights at one layer, with an edit in place."""

import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.models import Capture, Edit, Instrument, edited_bank
from finite_calculus.models.session import AttentionCall, Session, active, by_module
from finite_calculus.models.support import Site


def attention_weights(
    instrument: Instrument, capture: Capture, layer: int, edits: tuple[Edit, ...]
) -> Float[Tensor, "heads keys"]:
    """Native attention weights of the last query, from the layer's own eager attention.

    Edits may change keys and queries; biases and deletions live in the mask and are refused.
    """
    unedited = capture.layer(layer).bank()
    bank = edited_bank(capture.layer(layer), edits) if edits else unedited
    if bool(bank.bias.any()) or bool(bank.removed.any()):
        raise ValueError(
            "`edits` must change keys or queries only; got a score bias or a deletion."
        )
    readings: list[Tensor] = []

    def edit(site: Site, call: AttentionCall) -> AttentionCall:
        if site.layer != layer:
            return call
        return AttentionCall(
            bank.query.to(call.query)[None, :, None],
            bank.keys.to(call.key)[None],
            call.value,
            call.mask,
            call.options,
        )

    def observe(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        if site.layer == layer:
            _, weights = site.eager(
                site.module, call.query, call.key, call.value, call.mask, **call.options
            )
            readings.append(weights[0, :, -1].cpu().double())
        return output

    prompt = instrument.prompt(capture.ids)
    with torch.no_grad(), active(Session(by_module(prompt.sites), edit, observe)):
        prompt.run_last()
    return readings[0]
