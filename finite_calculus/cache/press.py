"""A method of ours as a press of kvpress, where that is installed: its pipelines and benches then run it.

kvpress pins an older transformers than this package's models ask for, so it lives in an environment of its
own; `python -m bench.kvpress` makes one. A press sees one layer at a time, after the prefill, and no mask:
prompts without padding, and models whose attention is Llama's or Qwen2's.
"""

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from finite_calculus.cache.methods import Method, WriteDistortion
from finite_calculus.cache.window import QueryWindow
from finite_calculus.models.projections import projection_weights

if TYPE_CHECKING:
    from finite_calculus.cache.methods import Kept


def press(method: Method) -> Any:
    """A press that keeps what the method keeps; its share of tokens is the method's own `keep`."""
    if isinstance(method, WriteDistortion) and method.shared:
        raise ValueError(
            "`method` must decide layer by layer in kvpress; got shared=True. Use `reducing` for one total."
        )
    try:
        from kvpress import BasePress  # pyright: ignore[reportMissingImports]
        from kvpress.utils import (  # pyright: ignore[reportMissingImports]
            get_prerope_query_states,
        )
    except ImportError as error:
        raise ImportError(
            f"`press` needs the package kvpress in this environment: {error}. python -m bench.kvpress makes "
            f"an environment that has it."
        ) from None

    class MethodPress(BasePress):
        """One method of ours."""

        def compress(
            self,
            module: nn.Module,
            hidden_states: Tensor,
            keys: Tensor,
            values: Tensor,
            attentions: Tensor | None,
            kwargs: dict[str, Any],
        ) -> tuple[Tensor, Tensor]:
            raw = get_prerope_query_states(module, hidden_states[:, -method.queries :])
            cos, sin = (x[:, -method.queries :] for x in kwargs["position_embeddings"])
            queries = rotated(raw, cos.unsqueeze(1), sin.unsqueeze(1))
            return compressed(method, module, queries, keys, values)

    return MethodPress()


def compressed(
    method: Method, module: Any, queries: Tensor, keys: Tensor, values: Tensor
) -> tuple[Tensor, Tensor]:
    """Keys and values (rows, groups, tokens, width) that stay, by the last queries of every head."""
    rows = [_kept(method, _window(module, *row)) for row in zip(queries, keys, values, strict=True)]
    index = torch.stack(rows).to(keys.device).sort(-1).values.unsqueeze(-1)
    return tuple(
        stored.gather(2, index.expand(-1, -1, -1, stored.shape[-1])).contiguous()
        for stored in (keys, values)
    )  # pyright: ignore[reportReturnType]


def rotated(queries: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotary positions as Llama and Qwen2 apply them, halves against halves."""
    first, second = queries.chunk(2, -1)
    return queries * cos + torch.cat([-second, first], -1) * sin


def _window(module: Any, queries: Tensor, keys: Tensor, values: Tensor) -> QueryWindow:
    groups, count = keys.shape[:2]
    heads, some = queries.shape[:2]
    weight, bias = projection_weights(module.o_proj, heads)
    tokens = torch.arange(count)
    seen = tokens <= torch.arange(count - some, count).unsqueeze(1)
    return QueryWindow(
        layer=module.layer_idx,
        tokens=tokens.expand(groups, -1),
        queries=queries.transpose(0, 1).float().cpu(),
        keys=keys.float().cpu(),
        values=values.float().cpu(),
        attended=seen.unsqueeze(1).expand(-1, groups, -1),
        scaling=module.scaling,
        softcap=None,
        sinks=None,
        output_projection=weight,
        write_bias=bias,
    )


def _kept(method: Method, window: QueryWindow) -> "Kept":
    (kept,) = method.plan([window], window.length)
    return kept
