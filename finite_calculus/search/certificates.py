"""Certificates of a search: first-order scores with a bound on their distance from the exact local score.

An edit of few keys is an edit of the small readout of those keys and the rest (main:sparse), so `certify`
is applied there (main:certificate). Rounding is followed from the captured tensors on. A deletion has no
finite KL; its first-order score Σ p (y − v) is 1 − α of the exact response in every head, which bounds
the rest. Everything here speaks of the edited attention write, not of the network beyond it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from finite_calculus.certificate import Certificate, certified_signs, certify
from finite_calculus.margin import head_gradient
from finite_calculus.models import Capture, Edit, LayerCapture, edited_bank, increments
from finite_calculus.models.edits import Edits, as_tuple
from finite_calculus.rounding import error_of, track, upper, value_of
from finite_calculus.search.block import Block, Places, block_of, group_increments, with_rest
from finite_calculus.search.stack import stack_of
from finite_calculus.search.table import Part, ScoreTable, places_of

QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
_FIELDS = ("first_order", "bound", "divergence", "total_variation")


@dataclass(frozen=True)
class CertifiedCounts:
    """How much of a table's order is certain: signs, and strictly ordered pairs of candidates."""

    candidates: int
    signs: int
    pairs: int

    @property
    def all_pairs(self) -> int:
        """Number of pairs of different candidates."""
        return self.candidates * (self.candidates - 1) // 2


def certify_table(table: ScoreTable) -> ScoreTable:
    """The table with a certificate for every row, layer by layer."""
    certificates: dict[int, Certificate] = {}
    for numbers in places_of(table.parts):
        shared = _parts(table.capture, [table.parts[number] for number in numbers])
        certificates |= dict(zip(numbers, shared, strict=True))
    return table.certified(_joined([certificates[n] for n in range(len(table.parts))], torch.cat))


def counts(certificate: Certificate) -> CertifiedCounts:
    """Certified signs and pairs; pairs are counted by sorting interval ends, not by comparing all."""
    lower, above = intervals(certificate)
    below = torch.searchsorted(above.sort().values, lower, side="left")
    return CertifiedCounts(
        candidates=lower.shape[0],
        signs=int((certified_signs(certificate) != 0).sum()),
        pairs=int(below.sum()),
    )


def tightness(table: ScoreTable, quantiles: Sequence[float] = QUANTILES) -> dict[float, float]:
    """Quantiles of bound over |exact local score − first-order score|: 1 is as tight as can be.

    Taken over the rows that move scores by a finite KL, which main:certificate is about: the
    remainder of a deletion is known, and a pure value edit has none. Empty if there are no such rows.
    """
    if table.certificate is None:
        raise ValueError("`table` must be certified; got one without. Use certify_table(table).")
    gap = (table.effect - table.certificate.first_order).abs()
    chosen = (table.key != 0) & torch.isfinite(table.certificate.divergence) & (gap > 0)
    if not bool(chosen.any()):
        return {}
    ratios = (table.certificate.bound / gap)[chosen].numpy()
    figures = np.quantile(ratios, quantiles)
    return {q: float(figure) for q, figure in zip(quantiles, figures, strict=True)}


def intervals(
    certificate: Certificate,
) -> tuple[Float[Tensor, " rows"], Float[Tensor, " rows"]]:
    """Ends of the interval that holds each exact local score, rounded outwards."""
    lower = certificate.first_order - certificate.bound
    above = certificate.first_order + certificate.bound
    infinity = lower.new_tensor(torch.inf)
    return torch.nextafter(lower, -infinity), torch.nextafter(above, infinity)


def _parts(capture: Capture, parts: list[Part]) -> list[Certificate]:
    """Certificates of parts at the same places, each part's rows layer by layer."""
    tokens = parts[0].tokens
    if tokens is None:
        return [_joined([_listed(capture, edits) for edits in parts[0].listed], torch.stack)]
    kinds = [part.kind for part in parts if part.kind is not None]
    layers = [_layer_certificates(capture.layer(int(n)), kinds, tokens) for n in parts[0].layers]
    return [_joined([layer[k] for layer in layers], torch.cat) for k in range(len(kinds))]


def _joined(certificates: list[Certificate], join: Callable[[list[Tensor]], Tensor]) -> Certificate:
    return Certificate(
        *(join([getattr(item, field) for item in certificates]) for field in _FIELDS)
    )


def _layer_certificates(
    layer: LayerCapture, kinds: list[Edit], tokens: Tensor
) -> list[Certificate]:
    """Certificates of kinds at their places in one layer, kind by kind."""
    stack = stack_of([layer], wrap=track)
    places = Places(stack, tokens - layer.first)
    blocks = [block_of(kind, places, wrap=track) for kind in kinds]
    edited = [block for block in blocks if not block.removes]
    certificates = iter(_edited(places, edited) if edited else [])
    return [_removed(places) if block.removes else next(certificates) for block in blocks]


def _edited(places: Places, blocks: list[Block]) -> list[Certificate]:
    """The certificates of edits, all kinds in one evaluation."""
    pairs = [group_increments(block) for block in blocks]
    scores = with_rest(torch.stack([scores for scores, _ in pairs]))
    values = with_rest(torch.stack([values for _, values in pairs])).unsqueeze(-1)
    ones = torch.ones(1, dtype=places.stack.dtype)
    per_head = certify(places.prepared.small_readout, scores, values, ones)
    heads_last = Certificate(*(getattr(per_head, f).squeeze(1).mT.contiguous() for f in _FIELDS))
    summed = heads_last.over_heads()
    return [Certificate(*(getattr(summed, f)[k] for f in _FIELDS)) for k in range(len(blocks))]


def _removed(places: Places) -> Certificate:
    """|Δ − first| = α|Δ|, with Δ the exact response to the deletion and first = (1 − α)Δ."""
    prepared = places.prepared
    exact = prepared.deletion().squeeze(-1)
    mass = prepared.probs.sum(-1)
    first = -prepared.pulls.sum(-2).squeeze(-1)
    remainder = upper((mass * exact).abs())
    bound = upper(track(remainder, error_of(first)))
    per_head = (value_of(first), bound, torch.zeros_like(bound), upper(mass))
    summed = Certificate(*(field.squeeze(0).mT.contiguous() for field in per_head)).over_heads()
    return replace(summed, divergence=torch.full_like(summed.bound, torch.inf))


def _listed(capture: Capture, edits: Edits) -> Certificate:
    """The certificate of one listed edit, from its layer's whole readout; none if it deletes."""
    layer = capture.layer(as_tuple(edits)[0].layer)
    bank = edited_bank(layer, edits)
    if bool(bank.removed.any()):
        nothing, endless = torch.zeros(()).double(), torch.full((), torch.inf).double()
        return Certificate(nothing, endless, endless, torch.ones(()).double())
    layer = layer.in_float64(track)
    change = increments(layer, bank.in_float64(track))
    slope = head_gradient(layer.output_projection, layer.gradient_write)
    return certify(layer.readout(), change.scores, change.values, slope).over_heads()
