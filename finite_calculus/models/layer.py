"""One captured attention layer at the last query: the tensors every prediction is computed from.

Tensors are kept as the model used them, those of half precision in float32, which changes no number; algebra
converts to float64. Keys and values stay in their physical groups and are repeated over heads only when a
readout is formed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus.models.precision import PRECISIONS, Precision, widened
from finite_calculus.models.sinks import null_sink, sink_mask, sink_scores
from finite_calculus.models.softcap import capped
from finite_calculus.models.words import short_repr
from finite_calculus.readout import Readout, freeze
from finite_calculus.rotary import Rotary

Wrap = Callable[[Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class LayerBank:
    """Query, keys, values and additive score bias of one readout: what an edit changes.

    Keys and values are those of groups, or of every head where an edit is of some heads alone.
    `changed` marks the key columns whose key or value an edit replaced, `removed` the deleted ones. A
    bank may hold a few columns of its layer only: `columns` names them, None means all.
    """

    __repr__ = short_repr

    query: Float[Tensor, "heads width"]
    keys: Float[Tensor, "groups keys width"]
    values: Float[Tensor, "groups keys value_width"]
    bias: Float[Tensor, "heads keys"]
    changed: Bool[Tensor, " keys"]
    removed: Bool[Tensor, " keys"]
    columns: Int[Tensor, " keys"] | None = None

    def places(self, columns: Int[Tensor, " some"]) -> Int[Tensor, " some"]:
        """Where this bank holds columns of its layer."""
        if self.columns is None:
            return columns
        if torch.equal(columns, self.columns):
            return torch.arange(len(columns))
        return torch.searchsorted(self.columns, columns)

    def of_member(self, member: int, groups: int) -> "LayerBank":
        """The bank with one key and value for each group: its own, or those of one member's head."""
        if self.keys.shape[0] == groups:
            return self
        keys, values = (x.unflatten(0, (groups, -1))[:, member] for x in (self.keys, self.values))
        return replace(self, keys=keys, values=values)

    def in_float64(self, wrap: Wrap) -> "LayerBank":
        """The same bank in float64, each tensor passed through `wrap`: `track` follows its rounding."""
        return replace(self, **_wide(self, ("query", "keys", "values", "bias"), wrap))


@dataclass(frozen=True, eq=False)
class LayerCapture:
    """What one layer did at the last query, and the gradients of the margin there.

    `first` is the token index of the first key column (above zero in sliding layers); `output` is the
    native y per head and `write` the native projected write o; `gradient_output` and
    `gradient_write` are the gradients of the margin at y and at o. `head_input` and the query weights
    are present where the query is affine in its input; otherwise `not_affine` says why they are not.
    `switch` is the position at which the model would change its rotary frequencies, if it does.
    `residual` is the norm of the residual stream that enters the layer's block, None in older captures.
    `dtype` names the precision of the model.
    """

    __repr__ = short_repr

    layer: int
    position: int
    first: int
    scaling: float
    softcap: float | None
    window: int | None
    query: Float[Tensor, "heads width"]
    keys: Float[Tensor, "groups keys width"]
    values: Float[Tensor, "groups keys value_width"]
    attended: Bool[Tensor, " keys"]
    sinks: Float[Tensor, " heads"] | None
    output: Float[Tensor, "heads value_width"]
    write: Float[Tensor, " model"]
    output_projection: Float[Tensor, "heads value_width model"]
    output_bias: Float[Tensor, " model"] | None
    gradient_output: Float[Tensor, "heads value_width"]
    gradient_write: Float[Tensor, " model"]
    rotary: Rotary | None
    rotary_scaling: float
    switch: int | None
    head_input: Float[Tensor, " inputs"] | None
    query_weight: Float[Tensor, "heads inputs width"] | None
    query_bias: Float[Tensor, "heads width"] | None
    not_affine: str
    residual: float | None = None
    dtype: str = "float32"

    @property
    def precision(self) -> Precision:
        """What the model computed this layer in."""
        return PRECISIONS[self.dtype]

    @property
    def heads(self) -> int:
        """Number of query heads."""
        return self.query.shape[0]

    @property
    def key_tolerance(self) -> float:
        """How far keys may lie from these and still be of the same prompt.

        Batches of different shape round in the last digits, another prompt differs in the first: half of the
        digits of a model tell the two apart.
        """
        return (2 * self.precision.coarsest.unit) ** 0.5 * float(self.keys.abs().max())

    @property
    def tokens(self) -> range:
        """Token indices of the key columns."""
        return range(self.first, self.first + self.keys.shape[1])

    def bank(self, columns: Int[Tensor, " some"] | None = None) -> LayerBank:
        """The unedited bank, of all key columns or of a few."""
        keys = self.keys if columns is None else self.keys[:, columns]
        values = self.values if columns is None else self.values[:, columns]
        bias = torch.zeros(self.heads, keys.shape[1], dtype=keys.dtype, device=keys.device)
        nowhere = self.attended.new_zeros(keys.shape[1])
        return LayerBank(self.query, keys, values, bias, nowhere, nowhere, columns)

    def in_float64(self, wrap: Wrap) -> "LayerCapture":
        """The same layer with what predictions are made of in float64, each passed through `wrap`."""
        names = ("query", "keys", "values", "sinks", "output_projection", "gradient_write")
        return replace(self, **_wide(self, names, wrap))

    def scores(
        self,
        bank: LayerBank | None = None,
        *,
        products: Float[Tensor, "heads keys"] | None = None,
    ) -> Float[Tensor, "heads keys"]:
        """Scores s = cap(q̃·k̃·scaling) + bias in float64, before the attended set is applied.

        `products` are q̃·k̃ as somebody rounded them, in place of the exact ones.
        """
        bank = self.bank() if bank is None else bank
        if products is None:
            products = head_products(bank.query.double(), bank.keys.double())
        return capped(products * self.scaling, self.softcap) + bank.bias.double()

    def readout(
        self,
        bank: LayerBank | None = None,
        *,
        products: Float[Tensor, "heads keys"] | None = None,
    ) -> Readout:
        """The float64 readout over the heads as batch; a sink is a last key with value zero.

        `products` as for `scores`.
        """
        bank = self.bank() if bank is None else bank
        values = repeat_groups(bank.values.double(), self.heads)
        attended = self.attended & ~bank.removed & (bank.bias > self.precision.removing)
        return freeze(
            sink_scores(self.scores(bank, products=products), self.sinks),
            null_sink(values, self.sinks, dim=-2),
            mask=sink_mask(attended, self.sinks),
        )

    def group(self, head: int) -> int:
        """The group of keys and values that a head reads."""
        return head // (self.heads // self.keys.shape[0])

    def column(self, token: int) -> int:
        """The key column of a token index; refuses tokens that this layer does not hold."""
        if isinstance(token, bool) or token not in self.tokens:
            raise ValueError(
                f"`tokens` must lie in {self.first}..{self.tokens.stop - 1}, the tokens that layer "
                f"{self.layer} holds; got {token!r}. Negative indices are not wrapped."
            )
        return token - self.first

    def columns(self, tokens: Sequence[int]) -> Int[Tensor, " tokens"]:
        """Key columns of token indices, each as `column` has it."""
        held = self.tokens
        for token in tokens:
            if isinstance(token, bool) or token not in held:
                self.column(token)
        return torch.tensor(tokens) - self.first

    def query_map(
        self,
    ) -> tuple[Float[Tensor, " inputs"], Float[Tensor, "heads inputs width"]]:
        """Head input and query weights, where the query is affine in the input; else the reason."""
        if self.head_input is None or self.query_weight is None:
            raise ValueError(
                f"Layer {self.layer} must have a query that is affine in the head input; "
                f"{self.not_affine}. Work in rotated query coordinates instead."
            )
        return self.head_input, self.query_weight

    def with_last_tokens(
        self,
        query: Float[Tensor, "heads width"],
        last_keys: Float[Tensor, "groups last width"],
        last_values: Float[Tensor, "groups last value_width"],
    ) -> "LayerCapture":
        """The same layer with the query and the last keys and values as another run rounded them."""
        kept = self.keys.shape[1] - last_keys.shape[1]
        return replace(
            self,
            query=widened(query),
            keys=torch.cat([self.keys[:, :kept], widened(last_keys)], 1),
            values=torch.cat([self.values[:, :kept], widened(last_values)], 1),
        )

    def rounded(self, bank: LayerBank, before: LayerBank) -> LayerBank:
        """An edited bank as the model can hold it: what is not as it was before, rounded once."""
        if not self.precision.half:
            return bank
        tensors = {name: getattr(bank, name) for name in ("query", "keys", "values", "bias")}
        return replace(
            bank,
            **{
                name: self.precision.round(tensor)
                for name, tensor in tensors.items()
                if tensor is not getattr(before, name)
            },
        )


def _wide(holder: object, names: tuple[str, ...], wrap: Wrap) -> dict[str, Tensor]:
    tensors = {name: getattr(holder, name) for name in names}
    return {name: wrap(tensor.double()) for name, tensor in tensors.items() if tensor is not None}


def stored_copy(tensor: Tensor) -> Tensor:
    """A copy as captures keep it: on the CPU, contiguous, so that its saved twin is summed alike."""
    return widened(tensor.detach().clone().cpu().contiguous())


def head_products(
    query: Float[Tensor, "heads width"], keys: Float[Tensor, "groups keys width"]
) -> Float[Tensor, "heads keys"]:
    """q_h·k_j for every head, each with the keys of its own group; nothing is repeated."""
    groups = keys.shape[0]
    grouped = query.reshape(groups, query.shape[0] // groups, query.shape[1])
    return torch.matmul(grouped, keys.mT).reshape(query.shape[0], keys.shape[1])


def repeat_groups(
    values: Float[Tensor, "groups keys width"], heads: int
) -> Float[Tensor, "heads keys width"]:
    """Each group's tensor once per head that reads it, in the order of the heads."""
    groups = values.shape[0]
    return values.unsqueeze(1).expand(-1, heads // groups, -1, -1).flatten(0, 1)


def by_groups_of(
    bank: Float[Tensor, "banked keys width"], tensor: Float[Tensor, "groups some width"]
) -> Float[Tensor, "banked some width"]:
    """Keys or values of groups as a bank holds them: of groups, or of every head."""
    return tensor if tensor.shape[0] == bank.shape[0] else repeat_groups(tensor, bank.shape[0])
