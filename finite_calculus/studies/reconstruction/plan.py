"""The units of the reconstruction study, and what all of them share."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from finite_calculus.harness import Plan
from finite_calculus.models import Instrument
from finite_calculus.models.projections import projection_weights, query_projection
from finite_calculus.studies.reconstruction.settings import ReconstructionSettings
from finite_calculus.studies.reconstruction.sources import read_articles
from finite_calculus.studies.reconstruction.unit import Context
from finite_calculus.tasks.articles import article_prefixes
from finite_calculus.tasks.tokens import require_fit


def plan_contexts(settings: ReconstructionSettings, tokenizer: Any, context: int) -> Plan[Context]:
    """The drawn articles; a prefix that leaves no room for a continuation is refused."""
    require_fit("reconstruction", range(settings.tokens + 1), context)
    articles = read_articles(settings.source, settings.data)
    prefixes = article_prefixes(
        articles.articles,
        tokenizer,
        count=settings.contexts,
        tokens=settings.tokens,
        seed=settings.seed,
    )
    units = {
        f"article-{number:03d}": Context(number, prefix) for number, prefix in enumerate(prefixes)
    }
    manifest = {
        "articles": articles.manifest(),
        "prefixes": [prefix.manifest() for prefix in prefixes],
    }
    return Plan(units, manifest, prefixes[0].ids[: settings.tokens])


def layer_constants(instrument: Instrument, layers: Sequence[int]) -> dict[str, Tensor]:
    """By layer and name: output and query projections with their biases, rotary frequencies."""
    heads = instrument.model.config.get_text_config(decoder=True).num_attention_heads
    tensors: dict[str, Tensor] = {}
    for number in sorted(layers):
        site, probed = instrument.support.sites[number], instrument.probed[number]
        weight, bias = projection_weights(site.projection, heads)
        named: dict[str, Tensor | None] = {"output": weight, "output_bias": bias}
        projection = query_projection(site.module)
        if projection is not None:
            width = int(getattr(site.module, "head_dim", weight.shape[1])) * heads
            named["query"] = projection.weight.detach()[:width].mT.contiguous().clone()
            if projection.bias is not None:
                named["query_bias"] = projection.bias.detach()[:width].clone()
        if probed.rotary is not None:
            named["frequencies"] = probed.rotary.frequencies.double()
            named["half"] = torch.tensor([probed.rotary.layout == "half"])
            named["start"] = torch.tensor([probed.rotary.start])
        tensors |= {f"{number}.{k}": t.cpu() for k, t in named.items() if t is not None}
    return tensors
