"""Attention odds multiplied."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import ClassVar

from torch import Tensor

from finite_calculus.models.edits.base import Edit, Edits, Tokens, attended_tokens, register
from finite_calculus.models.layer import LayerBank, LayerCapture


@register
@dataclass(frozen=True, eq=False)
class Odds(Edit):
    """Multiply the attention odds of tokens, in all heads or in those named."""

    by_column: ClassVar[bool] = True
    folds: ClassVar[bool] = True
    by_score: ClassVar[bool] = True
    words: ClassVar[tuple[str, ...]] = ("odds",)

    multiplier: float | int

    def __post_init__(self) -> None:
        """Refuse a multiplier that is not positive or not finite."""
        super().__post_init__()
        number = isinstance(self.multiplier, Real)
        if not number or not (self.multiplier > 0 and math.isfinite(self.multiplier)):
            raise ValueError(
                f"`multiplier` must be positive and finite; got {self.multiplier!r}. "
                f"To remove tokens altogether use Delete."
            )

    def apply(self, layer: LayerCapture, bank: LayerBank) -> LayerBank:
        """log(multiplier), rounded as the model's scores are, is added to them."""
        bias = bank.bias.clone()
        bias[self.rows(layer).unsqueeze(-1), bank.places(self.columns(layer))] += math.log(
            self.multiplier
        )
        return replace(bank, bias=bias)

    @property
    def name(self) -> str:
        """As in "odds ×64"."""
        return f"odds ×{self.multiplier:g}"

    def common_score(self, layer: LayerCapture) -> Tensor | None:
        """log(multiplier) as `apply` rounds it, unless heads are named."""
        if self.heads is not None:
            return None
        one = replace(self, tokens=self.tokens[:1])
        bank = layer.bank(one.columns(layer))
        return layer.rounded(one.apply(layer, bank), bank).bias[0].double()

    @classmethod
    def examples(cls, layer: LayerCapture, donor: LayerCapture) -> Sequence[Edits]:
        """More in all heads, less in the last one."""
        tokens = attended_tokens(layer)
        return (
            cls(layer.layer, tokens[:2], 3.0),
            cls(layer.layer, tokens[-2:], 0.2, heads=(layer.heads - 1,)),
        )

    @classmethod
    def idle_examples(cls, layer: LayerCapture, tokens: Tokens) -> Sequence[Edits]:
        """Odds times one."""
        return (cls(layer.layer, tokens, 1.0),)
