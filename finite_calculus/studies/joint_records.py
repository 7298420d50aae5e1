"""One pair at one layer: every edit executed beside its prediction.

A record is one executed intervention. `part_*` are G of L_s, K_f, V_0, C_KV and C_2; `predicted_*`
the predictors, of which zero is 0 and is not stored; `effect` is executed. `local_*` compare the
executed float32 write, contracted with the gradient, with its prediction from the very tensors of
that row. `executed_interaction` is the four-cell effect (eq:jointdownstreamfactorial).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from finite_calculus.models import (
    Capture,
    Instrument,
    LayerCapture,
    Outcome,
    Replace,
    edited_bank,
    write_error,
)
from finite_calculus.models.predict import predict_bank
from finite_calculus.studies.joint_audit import NUMBERS, audit_row
from finite_calculus.studies.joint_predictors import SpanPredictions, predict_span
from finite_calculus.studies.prompts import PairTokens, Span

KINDS = {"key": (True, False), "value": (False, True), "joint": (True, True)}

_KEYS = [
    *((name, pa.string()) for name in ("task", "kind", "answer")),
    *((name, pa.int32()) for name in ("layer", "pair", "span", "first_token", "tokens")),
]
_INTERACTION = ("executed_interaction", "interaction_residual")
RECORDS = pa.schema(
    [
        *_KEYS,
        *(pa.field(name, pa.float64(), nullable=False) for name in NUMBERS),
        *((name, pa.float64()) for name in _INTERACTION),
    ]
)


@dataclass(frozen=True)
class Variant:
    """One edit: a span, a kind and a strength."""

    span: int
    tokens: tuple[int, ...]
    kind: str
    strength: float

    def edit(self, layer: int, donor: LayerCapture) -> Replace:
        """The edit as the instrument executes it."""
        keys, values = KINDS[self.kind]
        return Replace(layer, self.tokens, donor, strength=self.strength, keys=keys, values=values)


@dataclass(frozen=True, eq=False)
class PlaceResult:
    """Records, the audit row and the tensors of one pair at one layer."""

    records: list[dict[str, Any]]
    audit: dict[str, Any]
    tensors: dict[str, Tensor]


def variants(spans: Sequence[Span], strengths: Sequence[float]) -> list[Variant]:
    """All edits of a pair, span by span: three kinds in full, joint ones at the other strengths."""
    kinds = [(kind, 1.0) for kind in KINDS] + [("joint", s) for s in strengths if s != 1]
    return [
        Variant(n, tuple(range(*span)), kind, strength)
        for n, span in enumerate(spans)
        for kind, strength in kinds
    ]


def run_place(
    instrument: Instrument,
    pair: PairTokens,
    layer: int,
    edits: Sequence[Variant],
    baseline: Capture,
    donor: Capture,
    *,
    batch: int,
) -> PlaceResult:
    """Predict and execute all edits of a pair at one layer."""
    taken = baseline.layer(layer)
    made = [variant.edit(layer, donor.layer(layer)) for variant in edits]
    outcomes = instrument.execute(baseline, made, batch=batch).outcomes
    banks = [edited_bank(taken, edit) for edit in made]
    unedited: dict[bytes, Tensor] = {}
    local = [_local(edit, outcome, unedited) for edit, outcome in zip(made, outcomes, strict=True)]
    records: list[dict[str, Any]] = []
    budgets: list[tuple[float, float]] = []
    for span in range(len(pair.spans)):
        mine = [n for n, variant in enumerate(edits) if variant.span == span]
        columns = [taken.column(token) for token in edits[mine[0]].tokens]
        found = predict_span(taken, [banks[n] for n in mine], columns)
        budgets += list(
            zip(found.dense_budget.tolist(), found.effective_budget.tolist(), strict=True)
        )
        rows = [
            _place_row(pair, layer, edits[n], baseline)
            | _executed(outcomes[n], baseline)
            | local[n]
            for n in mine
        ]
        records += _with_interaction([row | _predicted(found, k) for k, row in enumerate(rows)])
    tensors = _tensors(taken, donor.layer(layer), edits, outcomes)
    return PlaceResult(records, audit_row(records, budgets), tensors)


def _place_row(pair: PairTokens, layer: int, variant: Variant, baseline: Capture) -> dict[str, Any]:
    return {
        "task": pair.text.task,
        "kind": variant.kind,
        "answer": pair.text.answer,
        "layer": layer,
        "pair": pair.text.pair,
        "span": variant.span,
        "first_token": variant.tokens[0],
        "tokens": len(variant.tokens),
        "strength": variant.strength,
        "baseline": baseline.baseline,
    }


def _executed(outcome: Outcome, baseline: Capture) -> dict[str, float]:
    return {
        "control": outcome.control,
        "margin": outcome.margin,
        "effect": outcome.effect,
        "control_drift": outcome.control - baseline.baseline,
        "row_drift": outcome.drift,
    }


def _predicted(found: SpanPredictions, k: int) -> dict[str, float]:
    part = {name: float(values[k]) for name, values in found.parts.items()}
    separate = part["key"] + part["value"]
    return {
        **{f"part_{name}": value for name, value in part.items()},
        "predicted_first_order": part["linear"] + part["value"],
        "predicted_separate": separate,
        "predicted_quadratic": separate + part["quadratic"],
        "predicted_joint": float(found.joint[k]),
        "dense": float(found.dense[k]),
        "effective": float(found.effective[k]),
    }


def _local(edit: Replace, outcome: Outcome, unedited: dict[bytes, Tensor]) -> dict[str, float]:
    """The executed write against its prediction from the tensors that this row itself rounded.

    `unedited` keeps the bounds of unedited writes: most rows round their last token alike.
    """
    seen = outcome.layer
    gradient = seen.gradient_write.double()
    bank = edited_bank(seen, edit)
    own = torch.cat(
        [seen.query.flatten(), seen.keys[:, -1].flatten(), seen.values[:, -1].flatten()]
    )
    key = own.numpy().tobytes()
    if key not in unedited:
        unedited[key] = write_error(seen)
    moved = outcome.write.double() - outcome.control_write.double()
    bound = torch.dot(gradient.abs(), unedited[key] + write_error(seen, bank))
    return {
        "local_executed": float(torch.dot(gradient, moved)),
        "local_predicted": predict_bank(seen, bank).effect,
        "local_bound": float(bound),
    }


def _with_interaction(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Add I_m = Δm_KV − Δm_K − Δm_V where all three were executed at the same strength."""
    effects = {(row["kind"], row["strength"]): row["effect"] for row in rows}
    for row in rows:
        alone = [effects.get((kind, row["strength"])) for kind in ("key", "value")]
        executed = None
        if row["kind"] == "joint" and None not in alone:
            executed = row["effect"] - alone[0] - alone[1]
        row["executed_interaction"] = executed
        row["interaction_residual"] = (
            None if executed is None else executed - row["part_interaction"]
        )
    return rows


def _tensors(
    taken: LayerCapture,
    donor: LayerCapture,
    edits: Sequence[Variant],
    outcomes: Sequence[Outcome],
) -> dict[str, Tensor]:
    """What a replay needs: the captured bank, the endpoints as they were rounded, the writes."""
    tokens = tuple(sorted({token for variant in edits for token in variant.tokens}))
    held = {
        "query": taken.query,
        "keys": taken.keys,
        "values": taken.values,
        "attended": taken.attended,
        "gradient": taken.gradient_write,
        "scaling": torch.tensor([taken.scaling], dtype=torch.float64),
        "first": torch.tensor([taken.first]),
        "writes": torch.stack([outcome.write for outcome in outcomes]),
        "control_writes": torch.stack([outcome.control_write for outcome in outcomes]),
    }
    for strength in sorted({variant.strength for variant in edits}):
        bank = edited_bank(taken, Replace(taken.layer, tokens, donor, strength=strength))
        held |= {f"keys@{strength:g}": bank.keys, f"values@{strength:g}": bank.values}
    return {f"{taken.layer}.{name}": tensor for name, tensor in held.items()}
