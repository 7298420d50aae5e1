"""Methods of eviction behind one interface: settings in a dataclass, and which entries stay.

A method sees the windows of a running cache and names the columns to keep, as many for each of its heads'
groups as it is told, so that methods compare on equal terms. `WriteDistortion` is ours. The others are the
common rules in a few lines each; where a rule of the literature needs what a window has not (attention of all
former queries, a gradient through the whole model), the docstring says what stands for it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus.cache.choosing import Chooser, Search
from finite_calculus.cache.protected import Protected
from finite_calculus.cache.sharing import shared_counts
from finite_calculus.cache.trials import Over, Scope, each_prefix
from finite_calculus.cache.window import QueryWindow

Kept = Int[Tensor, "groups kept"]


@dataclass(frozen=True, kw_only=True)
class Method:
    """What all methods share: how much stays, what is protected, and when to decide again.

    `keep` is a share of all tokens below 1, or a number of tokens. `every` decides again after so many new
    tokens, 0 never. `queries` are the last queries of each layer that the method looks at.
    """

    keep: float | int = 0.5
    protect: Protected = field(default_factory=Protected)
    every: int = 0
    queries: int = 1

    def __post_init__(self) -> None:
        if not self.keep > 0 or (self.keep >= 1 and self.keep != int(self.keep)):
            raise ValueError(
                f"`keep` must be a share between 0 and 1 or a whole number of tokens; got {self.keep}."
            )
        if self.every < 0 or self.queries < 1:
            raise ValueError(
                f"`every` must be at least 0 and `queries` at least 1; got {self.every} and "
                f"{self.queries}."
            )

    def kept_of(self, seen: int) -> int:
        """How many entries stay of so many tokens."""
        return max(1, int(self.keep if self.keep >= 1 else self.keep * seen))

    def plan(self, windows: Sequence[QueryWindow], seen: int) -> list[Kept]:
        """The columns that stay in each layer, equally many for every group of a layer."""
        return [
            self.stay(window, self._fitting(window, seen), self._protected(window, seen))
            for window in windows
        ]

    def stay(self, window: QueryWindow, count: int, kept: Bool[Tensor, "groups keys"]) -> Kept:
        """`count` columns of each group of one layer, those that are protected among them."""
        raise NotImplementedError(f"{type(self).__name__} must define stay or scores.")

    def _protected(self, window: QueryWindow, seen: int) -> Bool[Tensor, "groups keys"]:
        return self.protect.mask(seen)[window.tokens]

    def _fitting(self, window: QueryWindow, seen: int) -> int:
        """What is to stay, but at least what is protected and at most what is there."""
        protected = int(self._protected(window, seen).sum(-1).max())
        return min(window.length, max(self.kept_of(seen), protected))


@dataclass(frozen=True, kw_only=True)
class ScoredMethod(Method):
    """A rule that scores every entry of a group by itself and keeps the largest scores."""

    def scores(self, window: QueryWindow) -> Float[Tensor, "groups keys"]:
        """Entries with the largest numbers stay."""
        raise NotImplementedError(f"{type(self).__name__} must define scores.")

    def stay(self, window: QueryWindow, count: int, kept: Bool[Tensor, "groups keys"]) -> Kept:
        """The largest scores, after what is protected."""
        scores = self.scores(window).double().masked_fill(~window.attended.any(0), -torch.inf)
        return scores.masked_fill(kept, torch.inf).topk(count).indices


@dataclass(frozen=True, kw_only=True)
class AttentionMass(ScoredMethod):
    """Attention of the last queries, summed over queries and heads: the rule of H2O on a window."""

    def scores(self, window: QueryWindow) -> Float[Tensor, "groups keys"]:
        """Σ p."""
        return _by_group(window, window.probs().sum(0))


@dataclass(frozen=True, kw_only=True)
class ObservationWindow(ScoredMethod):
    """Attention of the last queries, smoothed over neighbours; the window itself stays: SnapKV's rule."""

    queries: int = 32
    pool: int = 7

    def scores(self, window: QueryWindow) -> Float[Tensor, "groups keys"]:
        """Σ p, the mean over `pool` neighbouring tokens."""
        mass = _by_group(window, window.probs().sum(0)).unsqueeze(0)
        smooth = torch.nn.functional.avg_pool1d(mass, self.pool, 1, self.pool // 2)
        own = window.tokens > window.tokens.max() - window.count
        return smooth[0, :, : window.length].masked_fill(own, torch.inf)


@dataclass(frozen=True, kw_only=True)
class SinkAndRecent(ScoredMethod):
    """The first few tokens and the most recent ones: StreamingLLM's rule, positions left as they are."""

    sinks: int = 4

    def scores(self, window: QueryWindow) -> Float[Tensor, "groups keys"]:
        """The token's number; sinks above all."""
        return window.tokens.double().masked_fill(window.tokens < self.sinks, torch.inf)


@dataclass(frozen=True, kw_only=True)
class KeyNorm(ScoredMethod):
    """Keys of small norm, which were seen to attract attention."""

    def scores(self, window: QueryWindow) -> Float[Tensor, "groups keys"]:
        """−‖k‖₂."""
        return -torch.linalg.vector_norm(window.keys.double(), dim=-1)


@dataclass(frozen=True, kw_only=True)
class Random(ScoredMethod):
    """A seeded draw, the same for the same layer and number of keys."""

    seed: int = 0

    def scores(self, window: QueryWindow) -> Float[Tensor, "groups keys"]:
        """Uniform numbers."""
        state = (self.seed * 1_000_003 + window.layer) * 1_000_003 + window.length
        draw = torch.Generator().manual_seed(state)
        return torch.rand(window.tokens.shape, generator=draw, dtype=torch.float64)


@dataclass(frozen=True, kw_only=True)
class WriteGradient(ScoredMethod):
    """The first order of what an entry does to the energy of the write, |∂½‖o‖²/∂ log-odds|.

    It stands for gradient-based rules; theirs is the gradient of a loss through the whole model.
    """

    def scores(self, window: QueryWindow) -> Float[Tensor, "groups keys"]:
        """Σ_q |Σ_h p⟨(v − y)W_h, o⟩|."""
        probs, weight = window.probs(), window.output_projection.double()
        slope = torch.einsum("hwm,qm->qhw", weight, window.writes())
        slope = slope.unflatten(1, (window.groups, window.members))
        reach = torch.einsum("qgnw,gkw->qgnk", slope, window.values.double()).flatten(1, 2)
        centred = reach - (probs * reach).sum(-1, keepdim=True)
        heads = (probs * centred).unflatten(1, (window.groups, window.members))
        return heads.sum(2).abs().sum(0)


@dataclass(frozen=True, kw_only=True)
class WriteDistortion(Method):
    """Ours: the set whose joint removal changes the last queries' writes least, evaluated exactly.

    `over` takes the worst or the mean of ‖Δo‖/‖o‖. `shared` spreads one total over the layers by marginal
    distortion; else every layer keeps the same number. With `shortlist`, only so many times as many
    entries as have to go are looked at, those with the smallest bound on what they add. What has come since
    the last plan, `every` tokens, goes in one block.
    """

    queries: int = 16
    over: Over | str = "mean"
    scope: Scope | str = "group"
    shared: bool = False
    shortlist: float = 0.0
    search: Search = field(default_factory=Search)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.scope == "head":
            raise ValueError(
                "`scope` must be 'token' or 'group' for a cache: the heads of a group read the same stored "
                "keys; got 'head'."
            )

    def plan(self, windows: Sequence[QueryWindow], seen: int) -> list[Kept]:
        """As the others, or with one total for all layers."""
        if not self.shared:
            return super().plan(windows, seen)
        protected = [self._protected(window, seen) for window in windows]
        choosers = [self._chooser(w, p) for w, p in zip(windows, protected, strict=True)]
        curves = []
        for chooser in choosers:
            order = chooser.order(int(chooser.allowed.sum(-1).min()))
            curves.append(each_prefix(chooser.trials, order)[:: len(chooser.trials.blocks)])
        go = sum(window.length - self._fitting(window, seen) for window in windows)
        counts = shared_counts(curves, min(go, sum(len(curve) - 1 for curve in curves)))
        return [self._kept(chooser, count) for chooser, count in zip(choosers, counts, strict=True)]

    def stay(self, window: QueryWindow, count: int, kept: Bool[Tensor, "groups keys"]) -> Kept:
        """What the search leaves."""
        go = window.length - count
        if self.shortlist and go * self.shortlist < window.length:
            kept = kept | ~self._listed(window, kept, int(go * self.shortlist))
        return self._kept(self._chooser(window, kept), go)

    def _chooser(self, window: QueryWindow, kept: Tensor) -> Chooser:
        search = replace(self.search, least=max(self.search.least, self.every))
        return Chooser(window, ~kept, scope=self.scope, over=self.over, search=search)

    def _kept(self, chooser: Chooser, count: int) -> Kept:
        window, blocks = chooser.window, len(chooser.trials.blocks)
        chooser.select(count)
        gone = chooser.trials.gone.repeat_interleave(window.groups // blocks, 0)
        return (~gone).nonzero()[:, 1].reshape(window.groups, -1)

    def _listed(self, window: QueryWindow, kept: Tensor, count: int) -> Bool[Tensor, "groups keys"]:
        """The entries with the smallest bound Σ_h p‖v − y‖‖W_h‖ on what they pull, mean over queries."""
        probs = window.probs()
        reach = torch.linalg.matrix_norm(window.output_projection.double(), dim=(-2, -1))
        weight = _by_group(window, (probs * reach[:, None]).mean(0))
        centre = window.values.double().mean(1, keepdim=True)
        spread = torch.linalg.vector_norm(window.values.double() - centre, dim=-1)
        bound = (weight * spread).masked_fill(kept, torch.inf)
        if self.scope == "token":
            bound = bound.sum(0, keepdim=True).expand_as(bound)
        few = bound.topk(min(count, window.length), largest=False).indices
        return torch.zeros_like(kept).scatter(1, few, True)


def _by_group(
    window: QueryWindow, heads: Float[Tensor, "heads keys"]
) -> Float[Tensor, "groups keys"]:
    """The sum over the heads that read each group."""
    return heads.unflatten(0, (window.groups, window.members)).sum(1)
