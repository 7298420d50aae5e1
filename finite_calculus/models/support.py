"""The support gate: where a model's attention is reached, and the reasons to refuse it.

Everything here is read from the model without running it. A model that the instrument would measure
wrongly (linear-attention layers, shared keys and values, no attention interface, foreign patches) is
refused with its reason; what only restricts the calculus (softcap, query norms, sinks, windows) is
returned as notes. The families that the preflight passes on, as tiny random models, are those of
`finite_calculus.models.tiny.FAMILIES`; others that are not refused here still have to pass it.
"""

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from finite_calculus.models.devices import device_trouble, moving_hook
from finite_calculus.models.precision import PRECISIONS
from finite_calculus.models.refusals import REFUSALS

_LAYER_TYPES = ("full_attention", "sliding_attention", "chunked_attention")
_PROJECTIONS = ("o_proj", "dense", "out_proj", "c_proj")
_QUERY_NORMS = ("q_norm", "q_layernorm", "query_layernorm", "q_a_layernorm", "qk_norm")


class UnsupportedModelError(ValueError):
    """The model cannot be measured faithfully; the message gives the reason and what to do."""


@dataclass(frozen=True, eq=False)
class Site:
    """One attention module and what surrounds it: its decoder block and its output projection.

    `eager` is the module's own reference attention, taken from the file that defines its class.
    """

    layer: int
    name: str
    module: nn.Module
    block: nn.Module
    projection: nn.Module
    eager: Callable[..., Any]


@dataclass(frozen=True, eq=False)
class Support:
    """The sites of a supported model in order of layers, and what its features restrict."""

    sites: tuple[Site, ...]
    notes: tuple[str, ...]


def supported(model: PreTrainedModel) -> Support:
    """Check a model against every refusal and return its sites, or raise `UnsupportedModelError`."""
    _check_kind(model)
    _check_state(model)
    _check_layers(model)
    sites = find_sites(model)
    _check_sites(model, sites)
    foreign = foreign_patches(sites)
    if foreign:
        raise UnsupportedModelError(
            f"Attention must be the library's own; found foreign patches: {'; '.join(foreign)}. "
            f"Undo them, or start a process that does not import what made them."
        )
    return Support(sites, tuple(_notes(model, sites)))


def language_model_class(config: Any) -> Any:
    """The class that makes a model with a language-model head: of text, or else of images and text."""
    text = type(config) in AutoModelForCausalLM._model_mapping
    return AutoModelForCausalLM if text else AutoModelForImageTextToText


def find_sites(model: nn.Module) -> tuple[Site, ...]:
    """Every module of the text decoder that calls the attention interface, in order of layers."""
    sites, text = [], _text_modules(model)
    for name, module in model.named_modules():
        forward = _own_forward(module)
        if forward is None or "ALL_ATTENTION_FUNCTIONS" not in forward.__code__.co_names:
            continue
        if id(module) not in text:
            continue
        layer, projection = getattr(module, "layer_idx", None), _projection(module)
        eager = forward.__globals__.get("eager_attention_forward")
        if layer is None or projection is None or eager is None:
            raise UnsupportedModelError(
                f"Attention module {name!r} ({type(module).__name__}) must have a layer index, an "
                f"output projection ({', '.join(_PROJECTIONS)}) and an eager reference; it does not. "
                f"This family is not supported."
            )
        block = model.get_submodule(name.rpartition(".")[0])
        sites.append(Site(layer, name, module, block, projection, eager))
    return tuple(sorted(sites, key=lambda site: site.layer))


def foreign_patches(sites: tuple[Site, ...]) -> list[str]:
    """Replacements of library functions that would be run in place of the model's own attention.

    Looked for: an eager function or a forward that does not come from the file of its class, a
    forward put on an instance, forward hooks of others, registered attention functions from outside
    transformers.
    """
    reports = []
    for site in sites:
        forward = _own_forward(site.module)
        home = Path(inspect.getfile(type(site.module)))
        if Path(site.eager.__code__.co_filename) != home or hasattr(site.eager, "__wrapped__"):
            reports.append(f"eager_attention_forward of {home.name} is {_where(site.eager)}")
        if forward is not None and Path(forward.__code__.co_filename) != home:
            reports.append(f"{site.name}.forward is {_where(forward)}")
        for module, name in ((site.module, site.name), (site.block, f"block {site.layer}")):
            if "forward" in vars(module) and moving_hook(module) is None:
                reports.append(f"{name} has a forward of its own instance")
            if module._forward_hooks or module._forward_pre_hooks:
                reports.append(f"{name} has forward hooks")
    for key, function in ALL_ATTENTION_FUNCTIONS.items():
        if key.startswith("finite_calculus"):
            continue
        if not str(getattr(function, "__module__", "")).startswith("transformers."):
            reports.append(f"attention function {key!r} is {_where(function)}")
    return sorted(set(reports))


def require_finite_run(model: nn.Module, what: str, tensor: Tensor) -> None:
    """Require finite numbers of a run; weights that are not finite are named."""
    if bool(torch.isfinite(tensor).all()):
        return
    broken = [name for name, p in model.named_parameters() if not bool(torch.isfinite(p).all())]
    reason = f"{broken[0]} holds NaN or infinite weights" if broken else "it overflows on the way"
    raise ValueError(
        f"`model` must compute finite {what}; it does not, because {reason}. "
        f"Load the weights again, or choose another precision."
    )


def has_query_norm(module: nn.Module) -> bool:
    """Whether queries are normalised or clipped after projection, so that they are not affine in x."""
    normed = any(getattr(module, name, None) is not None for name in _QUERY_NORMS)
    clip = getattr(getattr(module, "config", None), "clip_qkv", None)
    return normed or clip is not None


def chunk_length(site: Site) -> int | None:
    """How many tokens a chunk has, in a layer whose tokens attend within chunks alone."""
    config: Any = site.module.config
    types = getattr(config, "layer_types", None) or []
    chunked = site.layer < len(types) and types[site.layer] == "chunked_attention"
    return int(config.attention_chunk_size) if chunked else None


def keeps_latents(module: nn.Module) -> bool:
    """Whether an attention caches latents (MLA), from which every pass makes keys and values anew."""
    return callable(getattr(module, "expand_kv", None))


def require_kept_keys(sites: tuple[Site, ...], what: str) -> None:
    """Refuse what reads or rewrites a cache where that holds latents."""
    if any(keeps_latents(site.module) for site in sites):
        raise UnsupportedModelError(
            f"{what} needs a cache of keys and values; {type(sites[0].module).__name__} keeps latents: "
            f"{REFUSALS['latent'].reason}."
        )


def _own_forward(module: nn.Module) -> Any:
    forward = inspect.unwrap(type(module).forward)
    return forward if hasattr(forward, "__code__") else None


def _text_modules(model: nn.Module) -> set[int]:
    """Identities of the modules that text runs through: of a multimodal model, those of its decoder."""
    decoder = model.get_decoder() if isinstance(model, PreTrainedModel) else None
    return {id(module) for module in (decoder or model).modules()}


def _projection(module: nn.Module) -> nn.Module | None:
    candidates = (getattr(module, name, None) for name in _PROJECTIONS)
    return next((item for item in candidates if isinstance(item, nn.Module)), None)


def _where(function: Any) -> str:
    code = getattr(function, "__code__", None)
    name = getattr(function, "__qualname__", repr(function))
    return f"{name} of {code.co_filename if code else getattr(function, '__module__', 'unknown')}"


def _check_kind(model: PreTrainedModel) -> None:
    if not isinstance(model, PreTrainedModel):
        raise TypeError(
            f"`model` must be a transformers PreTrainedModel; got {type(model).__name__}. "
            f"Load it with AutoModelForCausalLM.from_pretrained."
        )
    if getattr(model.config, "is_encoder_decoder", False):
        raise UnsupportedModelError(
            f"`model` must be a decoder; {type(model).__name__} is an encoder–decoder: "
            f"{REFUSALS['encoder'].reason}. Use a causal language model."
        )
    if model.get_output_embeddings() is None:
        raise UnsupportedModelError(
            f"`model` must have a language-model head for margins; {type(model).__name__} has none. "
            f"Load it with AutoModelForCausalLM."
        )


def _check_state(model: PreTrainedModel) -> None:
    if model.training:
        raise UnsupportedModelError(
            "`model` must be in evaluation mode, or dropout would change every run; it is in "
            "training mode. Call model.eval()."
        )
    _check_devices(model)
    if any(_shifted(module) for module in model.modules()):
        raise UnsupportedModelError(
            f"`model` must number positions from zero; {type(model).__name__} has seen an image: "
            f"{REFUSALS['images'].reason}."
        )
    dtypes = sorted({str(p.dtype) for p in model.parameters() if p.is_floating_point()})
    names = {name.removeprefix("torch.") for name in dtypes}
    # A few modules may stay in float32 beside half precision, as transformers keeps them.
    if len(names - {"float32"}) > 1 or not names <= set(PRECISIONS):
        raise UnsupportedModelError(
            f"`model` must have its weights in one of {', '.join(PRECISIONS)}; got "
            f"{', '.join(dtypes)}. Load it with one dtype."
        )


def _check_devices(model: PreTrainedModel) -> None:
    """Require that all weights are there, and that something moves what passes between devices."""
    trouble = device_trouble(model)
    if trouble:
        places = ", ".join(sorted({str(p.device) for p in model.parameters()}))
        raise UnsupportedModelError(
            f"`model` must have its weights on one device, or where a device_map put them whole; got "
            f"{places}: {REFUSALS[trouble].reason}. Load it with device=, or with a device_map of devices "
            f"that have room for all of it."
        )


def _shifted(module: nn.Module) -> bool:
    """Whether a multimodal model would add an image's shift to the positions of a text."""
    shift = vars(module).get("rope_deltas")
    return isinstance(shift, torch.Tensor) and bool((shift != 0).any())


def _check_layers(model: PreTrainedModel) -> None:
    config = model.config.get_text_config(decoder=True)
    kinds = [k for k in getattr(config, "layer_types", None) or [] if k not in _LAYER_TYPES]
    if "indexed_attention" in kinds:
        raise UnsupportedModelError(
            f"Every query must read all keys that its mask admits; {type(model).__name__} has layers that "
            f"choose: {REFUSALS['indexed'].reason}. Not supported."
        )
    if kinds:
        raise UnsupportedModelError(
            f"Every layer must be full or sliding softmax attention; {type(model).__name__} has "
            f"{', '.join(sorted(set(kinds)))} layers: {REFUSALS['hybrid'].reason}. Not supported."
        )
    shared = getattr(config, "num_kv_shared_layers", 0)
    if shared:
        raise UnsupportedModelError(
            f"Every layer must have its own keys and values; {type(model).__name__} shares them in "
            f"{shared} layers: {REFUSALS['shared'].reason}. Not supported."
        )


def _check_sites(model: PreTrainedModel, sites: tuple[Site, ...]) -> None:
    if not sites:
        raise UnsupportedModelError(
            f"{type(model).__name__} does not use the attention interface of transformers: "
            f"{REFUSALS['no interface'].reason}. This family is not supported."
        )
    count = model.config.get_text_config(decoder=True).num_hidden_layers
    if [site.layer for site in sites] != list(range(count)):
        raise UnsupportedModelError(
            f"Each of the {count} layers must have exactly one softmax attention; found them at "
            f"{[site.layer for site in sites]}. Hybrids and cross-attention are not supported."
        )
    cross = [site.name for site in sites if getattr(site.module, "is_kv_shared_layer", False)]
    if cross:
        raise UnsupportedModelError(
            f"Every layer must have its own keys and values; {cross[0]} borrows them. Not supported."
        )


def _notes(model: PreTrainedModel, sites: tuple[Site, ...]) -> Iterator[str]:
    modules = [site.module for site in sites]
    rounded = [
        buffer.dtype
        for name, buffer in model.named_buffers()
        if name.endswith("inv_freq") and buffer.dtype.itemsize < 4
    ]
    if rounded:
        yield (
            f"frequencies: rounded to {rounded[0]} by model.to; load with dtype= to keep them float32"
        )
    if any(getattr(m, "attn_logit_softcapping", None) is not None for m in modules):
        yield "softcap: d = cap(s') − cap(s); effective weights and band additivity do not hold"
    if any(has_query_norm(m) for m in modules):
        yield "query norm: the query is not affine in the head input; effective weights are refused"
    if any(isinstance(getattr(m, "sinks", None), torch.Tensor) for m in modules):
        yield "sinks: a null key with value zero takes part in every softmax"
    if any(getattr(m, "sliding_window", None) for m in modules):
        yield "sliding window: the cache of such layers holds the last W − 1 tokens only"
    if any(chunk_length(site) for site in sites):
        yield "chunks: tokens attend within a chunk of W, and the cache of such layers holds W − 1"
    if any(keeps_latents(m) for m in modules):
        yield "latents: edits are of the keys and values made of them, the cache itself holds neither"
    if model.config is not model.config.get_text_config(decoder=True):
        yield "multimodal: prompts are text alone, and only the text decoder is measured"
