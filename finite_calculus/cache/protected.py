"""Tokens that no method may evict: sinks, the recent window, a share at both ends, or any others."""

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor


@dataclass(frozen=True)
class Protected:
    """What stays in the cache: the `first` and the `last` tokens, a share of all at each end, and `tokens`.

    The last token, the query's own, always stays. `ends` = 0.1 keeps a tenth at the beginning and a tenth
    at the end, a control that is known to recover most of what an eviction loses.
    """

    first: int = 0
    last: int = 1
    ends: float = 0.0
    tokens: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name in ("first", "last"):
            if getattr(self, name) < 0:
                raise ValueError(
                    f"`{name}` must be a number of tokens to keep; got {getattr(self, name)}. "
                    f"Use 0 to keep none."
                )
        if not 0 <= self.ends <= 0.5:
            raise ValueError(
                f"`ends` must be a share of all tokens at each end, 0 to 0.5; got {self.ends}."
            )

    @classmethod
    def only(cls, tokens: "Protected | Iterable[int]") -> "Protected":
        """These tokens, or what is protected already."""
        return tokens if isinstance(tokens, Protected) else cls(tokens=tuple(tokens))

    def mask(self, count: int) -> Bool[Tensor, " tokens"]:
        """True at the protected ones of `count` tokens."""
        beyond = [token for token in self.tokens if not 0 <= token < count]
        if beyond:
            raise ValueError(
                f"`protect` must name tokens in 0..{count - 1}; got {beyond[0]}. "
                f"Negative indices are not wrapped."
            )
        share = int(self.ends * count)
        first, last = max(self.first, share), max(self.last, share, 1)
        mask = torch.zeros(count, dtype=torch.bool)
        mask[: min(first, count)] = True
        mask[max(0, count - last) :] = True
        mask[list(self.tokens)] = True
        return mask
