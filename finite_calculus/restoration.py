"""Restoring cache entries to full precision: Section 4 and Appendix D (eq:singlerepair, eq:repairbenefit).

With the original cache at hand, each entry's restoration has an exact effect on the projected write
and hence an exact benefit, the reduction of squared error. Greedy selection restores the best entry
and evaluates all benefits again. The controls of Appendix G score once or re-score on request.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from finite_calculus import _checks
from finite_calculus._complement import rest_of_each
from finite_calculus._transforms import refuted
from finite_calculus.margin import norm, project
from finite_calculus.readout import Readout, freeze
from finite_calculus.response import attended_value_delta, finite_response, relative_increments
from finite_calculus.sparse import prepare

Method = Literal[
    "exact", "first-order", "second-order", "attention", "value-norm", "fisher", "random"
]


@dataclass(frozen=True, eq=False)
class Restoration:
    """Entries restored in order, the score that chose each, and ‖write error‖₂ before and after.

    `errors[..., 0]` is the corrupted write's error and `errors[..., k]` the error after k restorations,
    so that errors[k]/errors[0] is the relative RMSE of eq:repairmetric. Scores and errors describe
    choices: they carry no gradient.
    """

    restored: Int[Tensor, "*batch steps"]
    scores: Float[Tensor, "*batch steps"]
    errors: Float[Tensor, "*batch states"]


@dataclass(frozen=True, eq=False)
class CachePair:
    """A corrupted cache beside its original, as one query's heads see them.

    Scores have shape (..., heads, keys), values (..., heads, keys, width); a physical token is one key
    index in every head. Leading dimensions are separate queries or caches.
    """

    scores: Float[Tensor, "*batch heads keys"]
    values: Float[Tensor, "*batch heads keys width"]
    original_scores: Float[Tensor, "*batch heads keys"]
    original_values: Float[Tensor, "*batch heads keys width"]

    def __post_init__(self) -> None:
        _checks.same_dtype(
            scores=self.scores,
            values=self.values,
            original_scores=self.original_scores,
            original_values=self.original_values,
        )
        heads_keys, vectors = "(..., heads, keys)", "(..., heads, keys, width)"
        _checks.last_axes("scores", self.scores, (None, None), heads_keys)
        _checks.exact_axes("values", self.values, (*self.scores.shape, None), vectors)
        _checks.exact_axes("original_scores", self.original_scores, self.scores.shape, heads_keys)
        _checks.exact_axes("original_values", self.original_values, self.values.shape, vectors)

    def restore(self, key: Int[Tensor, "*batch"] | int) -> "CachePair":
        """The pair after replacing one physical token's key and value by the originals, in each row."""
        keys = self.scores.shape[-1]
        chosen = torch.as_tensor(key, device=self.scores.device)
        _checks.key_indices("key", chosen, keys)
        if chosen.ndim:
            _checks.exact_axes("key", chosen, self.scores.shape[:-2], "one key for each cache")
        here = (torch.arange(keys, device=chosen.device) == chosen.unsqueeze(-1)).unsqueeze(-2)
        return CachePair(
            torch.where(here, self.original_scores, self.scores),
            torch.where(here.unsqueeze(-1), self.original_values, self.values),
            self.original_scores,
            self.original_values,
        )

    @property
    def score_delta(self) -> Tensor:
        """Score change from restoring each entry."""
        return self.original_scores - self.scores

    @property
    def value_delta(self) -> Tensor:
        """Value change from restoring each entry."""
        return self.original_values - self.values

    def write_error(self, output_projection: Tensor) -> Tensor:
        """e = o_corrupt − o_original, as an exact response and not as a difference of writes."""
        original = freeze(self.original_scores, self.original_values)
        change = finite_response(original, -self.score_delta, -self.value_delta)
        return project(change, output_projection)


def restoration_response(
    readout: Readout,
    score_delta: Float[Tensor, "*batch keys"],
    value_delta: Float[Tensor, "*batch keys width"],
) -> Float[Tensor, "*batch keys width"]:
    """Δ_j y for restoring each single entry j, the others held (eq:singlerepair).

    The logit form (p'_j − p_j)(v_j − y_{−j}) + p'_j ε_j with the complement summed on its own:
    dividing by 1 + p_j δ_j φ1(δ_j) fails for a dominant token.
    """
    if refuted(readout.attended.all()):
        raise ValueError(
            "`readout` must attend every key: entries outside the attended set cannot be restored "
            "for this query; got masked keys. Freeze the readout over the attended keys alone."
        )
    relative_increments(readout, score_delta)
    attended_value_delta(readout, value_delta)
    singles = torch.arange(readout.keys, device=readout.probs.device).unsqueeze(-1)
    return prepare(readout, singles).response(score_delta.unsqueeze(-1), value_delta.unsqueeze(-2))


def restoration_benefit(
    error: Float[Tensor, "*batch model"], change: Float[Tensor, "*batch keys model"]
) -> Float[Tensor, "*batch keys"]:
    """B_j = ‖e‖² − ‖e + Δ_j o‖² = −⟨Δ_j o, 2e + Δ_j o⟩ (eq:repairbenefit), without the difference."""
    _checks.same_dtype(error=error, change=change)
    _checks.last_axes("change", change, (None, error.shape[-1]), "(..., keys, model)")
    return -(change * (2 * error.unsqueeze(-2) + change)).sum(-1)


def restoration_scores(
    cache: CachePair,
    output_projection: Float[Tensor, "heads width model"],
    method: Method | str,
    *,
    generator: torch.Generator | None = None,
) -> Float[Tensor, "*batch keys"]:
    """Score every entry for restoration by one method of Appendix G; larger is restored first.

    "exact" is the benefit itself; "first-order" and "second-order" expand it along the joint path
    (αδ, αε); "attention" is Σ_h p, "value-norm" ‖Σ_h p v W_o‖, "fisher" Σ_h p(1 − p)δ². "random" needs
    a seeded `generator`.
    """
    if method not in get_args(Method):
        raise ValueError(f"`method` must be one of {get_args(Method)}; got {method!r}.")
    if method == "random":
        if generator is None:
            raise ValueError(
                "`generator` must be a seeded torch.Generator for method 'random'; got None."
            )
        one_head = cache.scores[..., 0, :]
        drawn = torch.rand(one_head.shape, generator=generator, dtype=one_head.dtype)
        return drawn.to(one_head.device)
    readout = freeze(cache.scores, cache.values)
    probs, delta = readout.probs, cache.score_delta
    if method == "attention":
        return probs.sum(-2)
    if method == "value-norm":
        weighed = (probs.unsqueeze(-1) * readout.values).movedim(-3, -2)
        return norm(project(weighed, output_projection))
    if method == "fisher":
        return (probs * rest_of_each(readout) * delta * delta).sum(-2)
    return _benefit_scores(cache, readout, output_projection, method)


def restore_greedily(
    cache: CachePair,
    output_projection: Float[Tensor, "heads width model"],
    count: int,
    *,
    method: Method = "exact",
    rescore: bool = True,
    candidates: Bool[Tensor, " keys"] | None = None,
    generator: torch.Generator | None = None,
) -> Restoration:
    """Restore `count` entries, the best one at a time (eq:repairbenefit).

    `rescore=False` scores once in the corrupted state, as the paper's controls do; `candidates`
    limits the choice, for instance to the prefix. Ties go to the earlier entry. Leading dimensions of
    the cache are restored each on its own.
    """
    one_head = cache.scores[..., 0, :]
    everything = torch.ones(one_head.shape[-1:], dtype=torch.bool, device=one_head.device)
    allowed = everything if candidates is None else candidates
    if allowed.dtype != torch.bool:
        raise TypeError(
            f"`candidates` must be boolean, True at entries that may be restored; got {allowed.dtype}. "
            f"Build it with torch.zeros(keys, dtype=torch.bool)."
        )
    _checks.exact_axes("candidates", allowed, cache.scores.shape[-1:], "(keys,)")
    if count < 0 or refuted(allowed.sum() >= count):
        raise ValueError(
            f"`count` must be between 0 and the number of candidates, {int(allowed.sum())}; got {count}."
        )
    scores = restoration_scores(cache, output_projection, method, generator=generator)
    restored = [torch.empty_like(scores[..., :0], dtype=torch.int64)]
    chosen_by = [scores[..., :0].detach()]
    errors = [_length(cache.write_error(output_projection))]
    for _ in range(count):
        if rescore and len(restored) > 1:
            scores = restoration_scores(cache, output_projection, method, generator=generator)
        best = torch.where(allowed, scores, -torch.inf).argmax(-1, keepdim=True)
        restored.append(best)
        chosen_by.append(torch.take_along_dim(scores.detach(), best, -1))
        allowed = allowed & (torch.arange(allowed.shape[-1], device=allowed.device) != best)
        cache = cache.restore(best.squeeze(-1))
        errors.append(_length(cache.write_error(output_projection)))
    return Restoration(torch.cat(restored, -1), torch.cat(chosen_by, -1), torch.cat(errors, -1))


def _length(vector: Tensor) -> Tensor:
    return norm(vector.detach()).unsqueeze(-1)


def _benefit_scores(
    cache: CachePair, readout: Readout, output_projection: Tensor, method: str
) -> Tensor:
    error = cache.write_error(output_projection)
    if method == "exact":
        change = restoration_response(readout, cache.score_delta, cache.value_delta)
        return restoration_benefit(error, project(change.movedim(-3, -2), output_projection))
    first, second = (
        project(term.movedim(-3, -2), output_projection) for term in _path_expansion(cache, readout)
    )
    if method == "first-order":
        return -2 * (first * error.unsqueeze(-2)).sum(-1)
    return -2 * ((first + second) * error.unsqueeze(-2)).sum(-1) - (first * first).sum(-1)


def _path_expansion(cache: CachePair, readout: Readout) -> tuple[Tensor, Tensor]:
    """First and second order of eq:singlerepair along (αδ, αε), at α = 1.

    p[δ(v − y) + ε] and p[δ²(½ − p)(v − y) + δ(1 − p)ε].
    """
    probs, rest = readout.probs.unsqueeze(-1), rest_of_each(readout).unsqueeze(-1)
    delta, edit = cache.score_delta.unsqueeze(-1), cache.value_delta
    pulls = 2 * (probs * readout.half_centred)
    first = delta * pulls + probs * edit
    second = delta * delta * (0.5 - probs) * pulls + probs * delta * rest * edit
    return first, second
