"""What all units of a run share: output projections, rotary frequencies and scaling of the depths."""

from collections.abc import Sequence

import torch
from torch import Tensor

from finite_calculus.models import Instrument
from finite_calculus.models.projections import projection_weights


def layer_constants(instrument: Instrument, layers: Sequence[int]) -> dict[str, Tensor]:
    """Constants of layers, by layer and name; layers without rotary planes have no frequencies."""
    heads = instrument.model.config.get_text_config(decoder=True).num_attention_heads
    tensors: dict[str, Tensor] = {}
    for layer in layers:
        site, probed = instrument.support.sites[layer], instrument.probed[layer]
        tensors[f"{layer}.output_projection"] = projection_weights(site.projection, heads)[0]
        if probed.rotary is not None:
            half = probed.rotary.layout == "half"
            tensors[f"{layer}.frequencies"] = probed.rotary.frequencies.double()
            tensors[f"{layer}.half"] = torch.tensor([half])
            tensors[f"{layer}.start"] = torch.tensor([probed.rotary.start])
    return tensors
