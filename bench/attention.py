"""Local responses to span replacements, from queries, keys and values: ours, dense, fused.

All compute the paper's quantity, one number per strength and span: the exact change of a layer's
attention write when a span's keys and values move towards a donor's, contracted with a gradient.
The shape is the paper's: 12 query heads over 2 key-value heads of width 128, float32.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

import finite_calculus as fc

HEADS, BANKS, WIDTH = 12, 2, 128


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

    @property
    def members(self) -> int:
        """Tokens of each span."""
        return self.donor_keys.shape[2]

    @property
    def index(self) -> Tensor:
        """The tokens of each span."""
        return self.starts.unsqueeze(-1) + torch.arange(self.members)

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
    )


def sparse(inputs: Inputs, *, portion: int = 4096) -> Tensor:
    """Ours: the bank read once, spans prepared and evaluated at every strength, a portion at a time."""
    scaled = inputs.query * WIDTH**-0.5
    scores = _contract(scaled, inputs.keys)
    pulls = _contract(inputs.gradient, inputs.values)
    bank = fc.read_bank(scores, pulls.unsqueeze(-1))
    strengths = inputs.strengths.view(-1, 1, 1, 1)
    responses = []
    for few in inputs.portions(portion):
        spans = fc.prepare_spans(bank, few.starts, few.members)
        donor_scores = _contract(scaled, few.donor_keys.flatten(1, 2))
        donor_pulls = _contract(inputs.gradient, few.donor_values.flatten(1, 2))
        score_delta = donor_scores.view(spans.scores.shape) - spans.scores
        value_delta = donor_pulls.view(spans.values.shape) - spans.values
        response = spans.response(strengths * score_delta, strengths.unsqueeze(-1) * value_delta)
        responses.append(response.squeeze(-1).sum(-2))
    return torch.cat(responses, -1)


def dense(inputs: Inputs) -> Tensor:
    """Softmax over all edited scores of every span and strength; the unchanged values are shared."""
    scaled, index = inputs.query * WIDTH**-0.5, inputs.index
    at = index.expand(HEADS, -1, -1)
    scores = _contract(scaled, inputs.keys)
    pulls = _contract(inputs.gradient, inputs.values)
    donor_scores = _contract(scaled, inputs.donor_keys.flatten(1, 2)).view(at.shape)
    donor_pulls = _contract(inputs.gradient, inputs.donor_values.flatten(1, 2)).view(at.shape)
    old = scores.index_select(1, index.flatten()).view(at.shape)
    change = donor_pulls - pulls.index_select(1, index.flatten()).view(at.shape)
    baseline = (torch.softmax(scores, -1) * pulls).sum()
    responses = []
    for strength in inputs.strengths.tolist():
        edited = scores.unsqueeze(1).repeat(1, len(index), 1)
        edited.scatter_(2, at, torch.lerp(old, donor_scores, strength))
        probs = torch.softmax(edited, -1)
        unmoved = torch.matmul(probs, pulls.unsqueeze(-1)).squeeze(-1)
        effect = (probs.gather(2, at) * change).sum(-1)
        responses.append((unmoved + strength * effect).sum(0) - baseline)
    return torch.stack(responses)


def fused(inputs: Inputs, *, chunk: int = 8) -> Tensor:
    """Torch's fused attention over a copy of the cache for every span, a few spans at a time."""
    query = inputs.query.reshape(1, HEADS, 1, WIDTH)
    baseline = _attend(query, inputs.keys.unsqueeze(0), inputs.values.unsqueeze(0))
    responses = []
    for strength in inputs.strengths.tolist():
        writes = []
        for few in torch.arange(len(inputs.starts)).split(chunk):
            keys, values = (
                _replaced(inputs, cache, donors, few, strength)
                for cache, donors in (
                    (inputs.keys, inputs.donor_keys),
                    (inputs.values, inputs.donor_values),
                )
            )
            writes.append(_attend(query.expand(len(few), -1, -1, -1), keys, values))
        change = torch.cat(writes) - baseline
        responses.append((change * inputs.gradient.reshape(HEADS, WIDTH)).sum((-1, -2)))
    return torch.stack(responses)


def read(inputs: Inputs) -> Tensor:
    """Read the cache and the donors once."""
    parts = (inputs.keys, inputs.values, inputs.donor_keys, inputs.donor_values)
    return torch.stack([part.sum() for part in parts])


def contractions(inputs: Inputs) -> list[Tensor]:
    """Scores and pulls of the cache and of the donors: what every way of computing responses needs."""
    scaled = inputs.query * WIDTH**-0.5
    keys, values = inputs.donor_keys.flatten(1, 2), inputs.donor_values.flatten(1, 2)
    pairs = ((scaled, inputs.keys), (inputs.gradient, inputs.values), (scaled, keys))
    return [_contract(vectors, bank) for vectors, bank in (*pairs, (inputs.gradient, values))]


def _contract(vectors: Tensor, bank: Tensor) -> Tensor:
    """⟨vector of each head, every token of its bank⟩ as (heads, tokens).

    With the long operand first, the matrix product is twice as fast here as the other way round.
    """
    return torch.matmul(bank, vectors.transpose(1, 2)).transpose(1, 2).reshape(HEADS, -1)


def _replaced(
    inputs: Inputs, cache: Tensor, donors: Tensor, few: Tensor, strength: float
) -> Tensor:
    """Copies of a cache, each with its span moved towards the donor."""
    copies = cache.unsqueeze(0).repeat(len(few), 1, 1, 1)
    at = inputs.index[few].reshape(len(few), 1, -1, 1).expand(-1, BANKS, -1, WIDTH)
    edited = torch.lerp(copies.gather(2, at), donors[:, few].transpose(0, 1), strength)
    return copies.scatter_(2, at, edited)


def _attend(query: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    return scaled_dot_product_attention(query, keys, values, enable_gqa=True).squeeze(2)
