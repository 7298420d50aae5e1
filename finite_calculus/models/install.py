"""Putting one attention function into a model, and everything back.

The function is registered under a name of its own, with the eager mask beside it: without the mask
registration transformers would build no causal mask and say nothing. After installing, the model's
configuration is read again, because `set_attn_implementation` only warns when it does nothing.
"""

import itertools
from typing import Any

from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedModel
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, eager_mask
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from finite_calculus.models.session import attention_of
from finite_calculus.models.support import Site, UnsupportedModelError

_COUNT = itertools.count()
_INSTALLED: dict[str, "Installation"] = {}


class Installation:
    """One attention function in a model, until it is removed. Several may lie on one another.

    It knows nothing of the instrument that uses it, so that a forgotten instrument can take it along.
    """

    def __init__(self, model: PreTrainedModel, sites: tuple[Site, ...]) -> None:
        self.name = f"finite_calculus_{next(_COUNT)}"
        self._before = [(c, c._attn_implementation_internal) for c in _configs(model)]
        function = attention_of(sites)
        AttentionInterface.register(self.name, function)
        AttentionMaskInterface.register(self.name, eager_mask)
        _INSTALLED[self.name] = self
        try:
            model.set_attn_implementation(self.name)
            check_installed(sites, self.name)
            if ALL_ATTENTION_FUNCTIONS[self.name] is not function:
                raise UnsupportedModelError(
                    "The registered attention function must be the instrument's; another library wraps "
                    "what is registered. Start a process that does not import it."
                )
        except BaseException:
            self.remove()
            raise

    def remove(self) -> None:
        """Put back what was there before; whatever was installed later stays, on what lies below."""
        if _INSTALLED.pop(self.name, None) is None:
            return
        for config, implementation in self._before:
            if config._attn_implementation_internal not in _INSTALLED:
                config._attn_implementation_internal = implementation
            for later in _INSTALLED.values():
                later._replace(config, self.name, implementation)
        AttentionInterface._global_mapping.pop(self.name, None)
        AttentionMaskInterface._global_mapping.pop(self.name, None)

    def _replace(self, config: Any, name: str, implementation: Any) -> None:
        """Let what was below this one be what was below that, in one configuration."""
        self._before = [
            (own, implementation if own is config and below == name else below)
            for own, below in self._before
        ]


def check_installed(sites: tuple[Site, ...], name: str) -> None:
    """Require that every attention module will call the function `name` with an eager mask."""
    for site in sites:
        implementation = site.module.config._attn_implementation  # type: ignore[union-attr]
        if implementation != name:
            raise UnsupportedModelError(
                f"The attention implementation of {site.name} must be {name!r} after installing; it "
                f"is {implementation!r}. transformers refuses to change it for this family: not supported."
            )
    if ALL_MASK_ATTENTION_FUNCTIONS.get(name) is not eager_mask:
        raise UnsupportedModelError(
            f"The mask function of {name!r} must be eager_mask; it is "
            f"{ALL_MASK_ATTENTION_FUNCTIONS.get(name)!r}. Without it attention is not causal."
        )


def _configs(model: PreTrainedModel) -> list[Any]:
    """Every configuration object of the model, each once."""
    configs: dict[int, Any] = {}
    waiting = [m.config for m in model.modules() if isinstance(m, PreTrainedModel)]
    while waiting:
        config = waiting.pop()
        if config is None or id(config) in configs:
            continue
        configs[id(config)] = config
        waiting += [getattr(config, key, None) for key in getattr(config, "sub_configs", {})]
    return list(configs.values())
