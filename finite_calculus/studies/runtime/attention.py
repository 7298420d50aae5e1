"""Local responses to span replacements, from queries, keys and values: ours, dense, fused.

All compute the paper's quantity, one number per strength and span: the exact change of a layer's attention
write when a span's keys and values move towards a donor's, contracted with a gradient. What does not depend
on the strength is prepared once and serves all strengths; each `prepare_*` returns what then evaluates them.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from finite_calculus.spans import prepare_spans, read_bank
from finite_calculus.sparse import PreparedGroups

# The paper's synthetic shape: query heads, key-value heads, their width.
HEADS, BANKS, WIDTH = 12, 2, 128

Evaluate = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Inputs:
    """One query of a layer, its cache, spans with their donors, a gradient and strengths."""

    query: Tensor  # (banks, heads per bank, width)
    keys: Tensor  # (banks, tokens, width)
    values: Tensor
    gradient: Tensor  # (banks, heads per bank, width)
    starts: Tensor  # (spans,)
    donor_keys: Tensor  # (banks, spans, members, width)
    donor_values: Tensor
    strengths: Tensor  # (strengths,)
    scaling: float

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.query.shape[0] * self.query.shape[1]

    @property
    def members(self) -> int:
        """Tokens of each span."""
        return self.donor_keys.shape[2]

    @property
    def index(self) -> Tensor:
        """The tokens of each span."""
        return self.starts.unsqueeze(-1) + torch.arange(self.members, device=self.starts.device)

    def portions(self, size: int) -> "list[Inputs]":
        """The same inputs, a few spans at a time."""
        if len(self.starts) <= size:
            return [self]
        parts = zip(
            self.starts.split(size),
            self.donor_keys.split(size, 1),
            self.donor_values.split(size, 1),
            strict=True,
        )
        return [
            replace(self, starts=starts, donor_keys=keys, donor_values=values)
            for starts, keys, values in parts
        ]

    def to(self, *how: torch.device | torch.dtype) -> "Inputs":
        """On another device or in another precision."""
        moved = {}
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                for target in how:
                    fits = isinstance(target, torch.device) or value.is_floating_point()
                    value = value.to(target) if fits else value
            moved[name] = value
        return Inputs(**moved)


def draw(
    tokens: int,
    spans: int,
    members: int = 8,
    strengths: tuple[float, ...] = (1.0,),
    dtype: torch.dtype = torch.float32,
) -> Inputs:
    """Random inputs of the paper's synthetic shape, seeded; spans in the order of their positions."""
    generator = torch.Generator().manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=dtype)

    return Inputs(
        query=normal(BANKS, HEADS // BANKS, WIDTH),
        keys=normal(BANKS, tokens, WIDTH),
        values=normal(BANKS, tokens, WIDTH),
        gradient=normal(BANKS, HEADS // BANKS, WIDTH) / WIDTH**0.5,
        starts=torch.randint(0, tokens - members + 1, (spans,), generator=generator).sort().values,
        donor_keys=normal(BANKS, spans, members, WIDTH),
        donor_values=normal(BANKS, spans, members, WIDTH),
        strengths=torch.tensor(strengths, dtype=dtype),
        scaling=WIDTH**-0.5,
    )


def prepare_sparse(inputs: Inputs) -> Evaluate:
    """Ours: the bank read once, spans prepared; the evaluator chooses how it evaluates them."""
    return _prepare_few(inputs, *_read(inputs))


def sparse(inputs: Inputs, *, portion: int = 4096) -> Tensor:
    """Ours, preparation and all strengths, a portion of the spans at a time."""
    read = _read(inputs)
    few = [_prepare_few(part, *read)(inputs.strengths) for part in inputs.portions(portion)]
    return torch.cat(few, -1)


def prepare_dense(inputs: Inputs) -> Evaluate:
    """Softmax over all edited scores of every span and strength; the unchanged values are shared."""
    scaled, index = inputs.query * inputs.scaling, inputs.index
    at = index.expand(inputs.heads, -1, -1)
    scores = contract(scaled, inputs.keys)
    pulls = contract(inputs.gradient, inputs.values)
    donor_scores = contract(scaled, inputs.donor_keys.flatten(1, 2)).view(at.shape)
    donor_pulls = contract(inputs.gradient, inputs.donor_values.flatten(1, 2)).view(at.shape)
    old = scores.index_select(1, index.flatten()).view(at.shape)
    change = donor_pulls - pulls.index_select(1, index.flatten()).view(at.shape)
    baseline = (torch.softmax(scores, -1) * pulls).sum()

    def evaluate(strengths: Tensor) -> Tensor:
        responses = []
        for strength in strengths.tolist():
            edited = scores.unsqueeze(1).repeat(1, len(index), 1)
            edited.scatter_(2, at, torch.lerp(old, donor_scores, strength))
            probs = torch.softmax(edited, -1)
            unmoved = torch.matmul(probs, pulls.unsqueeze(-1)).squeeze(-1)
            effect = (probs.gather(2, at) * change).sum(-1)
            responses.append((unmoved + strength * effect).sum(0) - baseline)
        return torch.stack(responses)

    return evaluate


def dense(inputs: Inputs) -> Tensor:
    """Dense recomputation, preparation and all strengths."""
    return prepare_dense(inputs)(inputs.strengths)


def fused(inputs: Inputs, *, chunk: int = 8) -> Tensor:
    """Torch's fused attention over a copy of the cache for every span, a few spans at a time."""
    query = inputs.query.reshape(1, inputs.heads, 1, -1)
    baseline = _attend(query, inputs.keys.unsqueeze(0), inputs.values.unsqueeze(0), inputs.scaling)
    responses = []
    for strength in inputs.strengths.tolist():
        writes = []
        for few in torch.arange(len(inputs.starts), device=query.device).split(chunk):
            keys, values = (
                _replaced(inputs, cache, donors, few, strength)
                for cache, donors in (
                    (inputs.keys, inputs.donor_keys),
                    (inputs.values, inputs.donor_values),
                )
            )
            asking = query.expand(len(few), -1, -1, -1)
            writes.append(_attend(asking, keys, values, inputs.scaling))
        change = torch.cat(writes) - baseline
        responses.append((change * inputs.gradient.reshape(inputs.heads, -1)).sum((-1, -2)))
    return torch.stack(responses)


def contract(vectors: Tensor, bank: Tensor) -> Tensor:
    """⟨vector of each head, every token of its bank⟩ as (heads, tokens).

    With the long operand first, the matrix product is twice as fast here as the other way round.
    """
    heads = vectors.shape[0] * vectors.shape[1]
    return torch.matmul(bank, vectors.transpose(1, 2)).transpose(1, 2).reshape(heads, -1)


def _read(inputs: Inputs) -> tuple[Tensor, Callable[[Tensor], PreparedGroups]]:
    """The scaled query, and what prepares spans of the bank, which is read here."""
    scaled = inputs.query * inputs.scaling
    pulls = contract(inputs.gradient, inputs.values).unsqueeze(-1)
    bank = read_bank(contract(scaled, inputs.keys), pulls)
    return scaled, lambda starts: prepare_spans(bank, starts, inputs.members)


def _prepare_few(
    inputs: Inputs, scaled: Tensor, prepare: Callable[[Tensor], PreparedGroups]
) -> Evaluate:
    spans = prepare(inputs.starts)
    donor_scores = contract(scaled, inputs.donor_keys.flatten(1, 2))
    donor_pulls = contract(inputs.gradient, inputs.donor_values.flatten(1, 2))
    score_delta = donor_scores.view(spans.scores.shape) - spans.scores
    value_delta = donor_pulls.view(spans.values.shape) - spans.values

    def evaluate(strengths: Tensor) -> Tensor:
        each = strengths.view(-1, 1, 1, 1)
        response = spans.response(each * score_delta, each.unsqueeze(-1) * value_delta)
        return response.squeeze(-1).sum(-2)

    return evaluate


def _replaced(
    inputs: Inputs, cache: Tensor, donors: Tensor, few: Tensor, strength: float
) -> Tensor:
    """Copies of a cache, each with its span moved towards the donor."""
    copies = cache.unsqueeze(0).repeat(len(few), 1, 1, 1)
    at = (
        inputs.index[few]
        .reshape(len(few), 1, -1, 1)
        .expand(-1, *cache.shape[:1], -1, cache.shape[2])
    )
    edited = torch.lerp(copies.gather(2, at), donors[:, few].transpose(0, 1), strength)
    return copies.scatter_(2, at, edited)


def _attend(query: Tensor, keys: Tensor, values: Tensor, scaling: float) -> Tensor:
    return scaled_dot_product_attention(
        query, keys, values, scale=scaling, enable_gqa=True
    ).squeeze(2)
