"""A look at every attention call of a model that runs its own attention, whichever that is.

`attach` runs the eager attention; here the model keeps the implementation it has, so that a long prompt costs
what it costs without us. The look is a function that gets each call and may hand on other keys' mask. On exit
everything is what it was.
"""

import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from finite_calculus.models.session import AttentionCall
from finite_calculus.models.support import Site, UnsupportedModelError

Look = Callable[[Site, AttentionCall], AttentionCall]
_COUNT = itertools.count()


@contextmanager
def passing(model: PreTrainedModel, sites: tuple[Site, ...], look: Look) -> Iterator[None]:
    """Let every attention call of the model pass through `look` before its own attention runs."""
    configs = _configs(model, sites)
    before = [(config, config._attn_implementation_internal) for config in configs]
    own: str = configs[0]._attn_implementation
    mask = ALL_MASK_ATTENTION_FUNCTIONS._global_mapping.get(own)
    if mask is None:
        raise UnsupportedModelError(
            f"The attention implementation must be one that transformers builds masks for; {own!r} is "
            f'not. Load the model with attn_implementation="sdpa" or "eager".'
        )
    name = f"finite_calculus_cache_{next(_COUNT)}"
    AttentionInterface.register(name, _function(sites, own, look))
    AttentionMaskInterface.register(name, mask)
    try:
        for config in configs:
            config._attn_implementation_internal = name
        yield
    finally:
        for config, implementation in before:
            config._attn_implementation_internal = implementation
        AttentionInterface._global_mapping.pop(name, None)
        AttentionMaskInterface._global_mapping.pop(name, None)


def _configs(model: PreTrainedModel, sites: tuple[Site, ...]) -> list[Any]:
    """The configurations that say which attention runs, each once, those of the layers first."""
    several: list[Any] = [getattr(site.module, "config", model.config) for site in sites]
    return list({id(config): config for config in (*several, model.config)}.values())


def _function(sites: tuple[Site, ...], own: str, look: Look) -> Callable[..., Any]:
    by_module = {id(site.module): site for site in sites}

    def attention(
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None,
        **options: Any,
    ) -> tuple[Tensor, Any]:
        site = by_module[id(module)]
        call = look(site, AttentionCall(query, key, value, attention_mask, options))
        function = ALL_ATTENTION_FUNCTIONS.get_interface(own, site.eager)
        return function(module, call.query, call.key, call.value, call.mask, **call.options)

    return attention
