"""What one run of a prompt left in a cache: recorded here, or read from a file of another library.

A file is safetensors with `layers.N.keys` and `layers.N.values` of shape (groups, tokens, width), keys
rotated, a leading batch of one allowed; `layers.N.outputs`, each head's attention output (heads, tokens,
width), may be missing, and then a fault of the attention is first seen in the keys of the next layer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import Cache, DynamicLayer

from finite_calculus.cache.passing import passing
from finite_calculus.models import supported
from finite_calculus.models.precision import widened
from finite_calculus.models.session import AttentionCall
from finite_calculus.models.support import Site, require_kept_keys

PARTS = ("keys", "values", "outputs")
# From keys and values of one row, (groups, tokens, width), and the layer's number to what is read instead.
Transform = Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]]


@dataclass(frozen=True, eq=False)
class CacheRecord:
    """Keys and values of every layer, and the heads' outputs if they are known."""

    keys: tuple[Float[Tensor, "groups tokens width"], ...]
    values: tuple[Float[Tensor, "groups tokens value_width"], ...]
    outputs: tuple[Float[Tensor, "heads tokens value_width"], ...] | None

    def part(self, name: str) -> tuple[Tensor, ...] | None:
        """One of `PARTS`."""
        return getattr(self, name)

    def save(self, path: Path) -> None:
        """Write the record as safetensors."""
        tensors = {
            f"layers.{number}.{name}": tensor.contiguous()
            for name in PARTS
            for number, tensor in enumerate(self.part(name) or ())
        }
        save_file(tensors, path)

    @classmethod
    def load(cls, path: Path) -> "CacheRecord":
        """Read a record; half precision becomes float32 without loss."""
        tensors = load_file(path)
        count = sum(name.endswith(".keys") for name in tensors)
        parts = {}
        for name in PARTS:
            listed = [tensors.get(f"layers.{number}.{name}") for number in range(count)]
            missing = [number for number, tensor in enumerate(listed) if tensor is None]
            if (missing and (name != "outputs" or len(missing) < count)) or not count:
                raise ValueError(
                    f"{path} must hold layers.N.keys and layers.N.values of every layer; "
                    f"layers.{missing[0] if missing else 0}.{name} is missing."
                )
            parts[name] = None if missing else tuple(_three_axes(x, name) for x in listed)
        return cls(**parts)


def record(
    model: PreTrainedModel,
    ids: Sequence[int] | Tensor,
    *,
    rows: int = 1,
    chunk: int | None = None,
    transform: Transform | None = None,
    sites: tuple[Site, ...] | None = None,
) -> CacheRecord:
    """Run a prompt and record its cache on the CPU: as one of `rows` equal rows, in chunks of so many tokens.

    With a transform, every attention reads what it makes of the stored keys and values, and that is recorded.
    `sites` are the model's, if they are known already.
    """
    if rows < 1 or (chunk is not None and chunk < 1):
        raise ValueError(f"`rows` and `chunk` must be at least 1; got {rows} and {chunk}.")
    prompt = torch.as_tensor(ids).to(model.device)
    sites = supported(model).sites if sites is None else sites
    require_kept_keys(sites, "A record of the cache")
    outputs: dict[int, list[Tensor]] = {site.layer: [] for site in sites}

    def hook_of(site: Site):
        def hook(module: torch.nn.Module, args: tuple[Tensor, ...]) -> None:
            outputs[site.layer].append(args[0][0].detach().clone())

        return hook

    hooks = [site.projection.register_forward_pre_hook(hook_of(site)) for site in sites]
    heads: dict[int, int] = {}

    def look(site: Site, call: AttentionCall) -> AttentionCall:
        heads[site.layer] = call.query.shape[1]
        return call

    cache = DynamicCache()
    if transform is not None:
        cache = Cache(layers=[TransformedLayer(site.layer, transform) for site in sites])
    try:
        with torch.no_grad(), passing(model, sites, look):
            for part in prompt.split(chunk or len(prompt)):
                model.base_model(
                    input_ids=part.expand(rows, -1), past_key_values=cache, use_cache=True
                )
    finally:
        for hook in hooks:
            hook.remove()
    joined = [torch.cat(outputs[site.layer]).cpu() for site in sites]
    held = [_held(layer, transform) for layer in cache.layers]
    return CacheRecord(
        keys=tuple(keys for keys, _ in held),
        values=tuple(values for _, values in held),
        outputs=tuple(
            y.unflatten(-1, (heads[site.layer], -1)).transpose(0, 1).contiguous()
            for y, site in zip(joined, sites, strict=True)
        ),
    )


class TransformedLayer(DynamicLayer):
    """A cache layer that hands out what a transform makes of the keys and values that it stores."""

    def __init__(self, number: int, transform: Transform) -> None:
        super().__init__()
        self.number, self.transform = number, transform

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: object, **kwargs: object
    ) -> tuple[Tensor, Tensor]:
        """Store, and read through the transform, row by row."""
        keys, values = super().update(key_states, value_states)
        rows = [
            transformed(self.transform, *row, self.number) for row in zip(keys, values, strict=True)
        ]
        return torch.stack([k for k, _ in rows]), torch.stack([v for _, v in rows])


def transformed(
    transform: Transform, keys: Tensor, values: Tensor, layer: int
) -> tuple[Tensor, Tensor]:
    """What a transform makes of one row, held to the shapes and to finite numbers of the same type.

    It is given half precision as float32, which changes no number, and what it makes is rounded once.
    """
    made = transform(widened(keys).clone(), widened(values).clone(), layer)
    for name, before, after in zip(("keys", "values"), (keys, values), made, strict=True):
        if not isinstance(after, Tensor) or after.shape != before.shape:
            shape = tuple(after.shape) if isinstance(after, Tensor) else type(after).__name__
            raise ValueError(
                f"A transform must return {name} of shape {tuple(before.shape)} at layer {layer}, heads, "
                f"tokens and width as it got them; got {shape}."
            )
        if not bool(torch.isfinite(after.to(before.dtype)).all()):
            raise ValueError(
                f"A transform must return finite {name}; at layer {layer} some are not."
            )
    return made[0].to(keys.dtype), made[1].to(values.dtype)


def _held(layer: object, transform: Transform | None) -> tuple[Tensor, Tensor]:
    """Keys and values of the first row, as attention reads them."""
    keys, values = layer.keys[0], layer.values[0]  # pyright: ignore[reportAttributeAccessIssue]
    if transform is None:
        return keys.clone().cpu(), values.clone().cpu()
    made = transformed(transform, keys, values, layer.number)  # pyright: ignore
    return made[0].cpu(), made[1].cpu()


def _three_axes(tensor: Tensor | None, name: str) -> Tensor:
    if tensor is None or tensor.ndim not in (3, 4) or (tensor.ndim == 4 and len(tensor) != 1):
        shape = None if tensor is None else tuple(tensor.shape)
        raise ValueError(f"`{name}` of a layer must be (heads, tokens, width); got {shape}.")
    return (tensor[0] if tensor.ndim == 4 else tensor).float()
