"""One pair of the joint study: both prompts captured, every edit predicted and executed at every layer."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from finite_calculus.harness import Check, UnitResult
from finite_calculus.models import (
    Agreement,
    Capture,
    Instrument,
    LayerCapture,
    Outcome,
    Replace,
    compare_all,
    edited_bank,
)
from finite_calculus.models.predict import predict_bank
from finite_calculus.models.projections import projection_weights
from finite_calculus.studies.joint_kv.checks import place_checks
from finite_calculus.studies.joint_kv.predictors import SpanPredictions, predict_span
from finite_calculus.studies.joint_kv.rows import Intervention
from finite_calculus.studies.joint_kv.settings import JointKVSettings
from finite_calculus.tasks.pairs import PairTokens, Span

KINDS = {"key": (True, False), "value": (False, True), "joint": (True, True)}


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
class Executed:
    """One executed edit, its local comparison along the gradient, and ½ ΔoᵀHΔo of its write if joint."""

    outcome: Outcome
    local: Agreement
    second: float | None


@dataclass(frozen=True, eq=False)
class PlaceResult:
    """Rows, checks and tensors of one pair at one layer."""

    rows: list[Intervention]
    checks: list[Check]
    tensors: dict[str, Tensor]


def run_pair(instrument: Instrument, settings: JointKVSettings, pair: PairTokens) -> UnitResult:
    """Capture one pair, then predict and execute all its edits at every layer of its task."""
    places = settings.at(pair.text.task)
    answer, versus = pair.labels
    baseline, donor = (
        instrument.capture(
            ids, answer=answer, versus=versus, layers=[place.layer for place in places]
        )
        for ids in (pair.baseline, pair.donor)
    )
    edits = {place.layer: variants(pair.spans, place.strengths) for place in places}
    seconds = second_orders(instrument, edits, baseline, donor)
    results = [
        run_place(
            instrument, pair, layer, listed, baseline, donor, seconds[layer], batch=settings.batch
        )
        for layer, listed in edits.items()
    ]
    return UnitResult(
        rows={"records": [row for result in results for row in result.rows]},
        checks=[check for result in results for check in result.checks],
        tensors={name: tensor for result in results for name, tensor in result.tensors.items()},
    )


def output_projections(instrument: Instrument, layers: Sequence[int]) -> dict[str, Tensor]:
    """Output projections of layers, which are the same for every unit."""
    sites = instrument.support.sites
    heads = instrument.model.config.get_text_config(decoder=True).num_attention_heads
    return {
        f"{layer}.output_projection": projection_weights(sites[layer].projection, heads)[0]
        for layer in sorted(layers)
    }


def variants(spans: Sequence[Span], strengths: Sequence[float]) -> list[Variant]:
    """All edits of a pair, span by span: three kinds in full, joint ones at the other strengths."""
    kinds = [(kind, 1.0) for kind in KINDS] + [("joint", s) for s in strengths if s != 1]
    return [
        Variant(n, tuple(range(*span)), kind, strength)
        for n, span in enumerate(spans)
        for kind, strength in kinds
    ]


def second_orders(
    instrument: Instrument,
    edits: Mapping[int, Sequence[Variant]],
    baseline: Capture,
    donor: Capture,
) -> dict[int, list[float | None]]:
    """½ ΔoᵀHΔo of the predicted writes of joint edits, by layer: one pass for all, None for other kinds."""
    writes = {}
    for layer, variants_here in edits.items():
        captured, other = baseline.layer(layer), donor.layer(layer)
        joint = [v.edit(layer, other) for v in variants_here if v.kind == "joint"]
        banks = [edited_bank(captured, edit) for edit in joint]
        writes[layer] = torch.stack([predict_bank(captured, bank).write for bank in banks])
    terms = {
        n: iter(each.tolist()) for n, each in instrument.second_terms(baseline, writes).items()
    }
    return {
        layer: [next(terms[layer]) if v.kind == "joint" else None for v in listed]
        for layer, listed in edits.items()
    }


def run_place(
    instrument: Instrument,
    pair: PairTokens,
    layer: int,
    edits: Sequence[Variant],
    baseline: Capture,
    donor: Capture,
    seconds: Sequence[float | None],
    *,
    batch: int,
) -> PlaceResult:
    """Predict and execute all edits of a pair at one layer; `seconds` are their second orders."""
    captured = baseline.layer(layer)
    replacements = [variant.edit(layer, donor.layer(layer)) for variant in edits]
    outcomes = instrument.execute(baseline, replacements, batch=batch).outcomes
    banks = [edited_bank(captured, edit) for edit in replacements]
    gradient = captured.gradient_write.double()
    effects = [each.write.along(gradient) for each in compare_all(replacements, outcomes)]
    rows: list[Intervention] = []
    budgets: list[tuple[float, float]] = []
    for span in range(len(pair.spans)):
        numbers = [n for n, variant in enumerate(edits) if variant.span == span]
        columns = [captured.column(token) for token in edits[numbers[0]].tokens]
        predictions = predict_span(captured, [banks[n] for n in numbers], columns)
        budgets += list(
            zip(
                predictions.dense_budget.tolist(),
                predictions.effective_budget.tolist(),
                strict=True,
            )
        )
        rows += _with_interaction(
            [
                _row(
                    pair,
                    edits[n],
                    baseline,
                    Executed(outcomes[n], effects[n], seconds[n]),
                    predictions,
                    k,
                )
                for k, n in enumerate(numbers)
            ]
        )
    tensors = _tensors(captured, donor.layer(layer), edits, outcomes)
    return PlaceResult(rows, place_checks(rows, budgets), tensors)


def _row(
    pair: PairTokens,
    variant: Variant,
    baseline: Capture,
    executed: Executed,
    predictions: SpanPredictions,
    k: int,
) -> Intervention:
    """One executed edit; its interaction is known once all edits of the span are."""
    outcome, local = executed.outcome, executed.local
    part = {name: float(values[k]) for name, values in predictions.parts.items()}
    separate = part["key"] + part["value"]
    joint = float(predictions.joint[k])
    return Intervention(
        task=pair.text.task,
        kind=variant.kind,
        answer=pair.text.answer,
        layer=outcome.layer.layer,
        pair=pair.text.pair,
        span=variant.span,
        first_token=variant.tokens[0],
        tokens=len(variant.tokens),
        strength=variant.strength,
        baseline=baseline.baseline,
        control=outcome.control,
        margin=outcome.margin,
        effect=outcome.effect,
        control_drift=outcome.control - baseline.baseline,
        row_drift=outcome.drift,
        part_linear=part["linear"],
        part_key=part["key"],
        part_value=part["value"],
        part_interaction=part["interaction"],
        part_quadratic=part["quadratic"],
        predicted_first_order=part["linear"] + part["value"],
        predicted_separate=separate,
        predicted_quadratic=separate + part["quadratic"],
        predicted_joint=joint,
        dense=float(predictions.dense[k]),
        effective=float(predictions.effective[k]),
        local_executed=float(local.executed),
        local_predicted=float(local.predicted),
        local_bound=float(local.bound),
        executed_interaction=None,
        interaction_residual=None,
        predicted_second=None if executed.second is None else joint + executed.second,
    )


def _with_interaction(rows: list[Intervention]) -> list[Intervention]:
    """Add I_m = Δm_KV − Δm_K − Δm_V where all three were executed at the same strength."""
    effects = {(row.kind, row.strength): row.effect for row in rows}
    return [_interacting(row, effects) for row in rows]


def _interacting(row: Intervention, effects: dict[tuple[str, float], float]) -> Intervention:
    key, value = (effects.get((kind, row.strength)) for kind in ("key", "value"))
    if row.kind != "joint" or key is None or value is None:
        return row
    executed = row.effect - key - value
    residual = executed - row.part_interaction
    return replace(row, executed_interaction=executed, interaction_residual=residual)


def _tensors(
    captured: LayerCapture,
    donor: LayerCapture,
    edits: Sequence[Variant],
    outcomes: Sequence[Outcome],
) -> dict[str, Tensor]:
    """What a replay needs: the captured bank, the endpoints as they were rounded, the writes."""
    tokens = tuple(sorted({token for variant in edits for token in variant.tokens}))
    tensors = {
        "query": captured.query,
        "keys": captured.keys,
        "values": captured.values,
        "attended": captured.attended,
        "gradient": captured.gradient_write,
        "scaling": torch.tensor([captured.scaling], dtype=torch.float64),
        "first": torch.tensor([captured.first]),
        "writes": torch.stack([outcome.write for outcome in outcomes]),
        "control_writes": torch.stack([outcome.control_write for outcome in outcomes]),
    }
    for strength in sorted({variant.strength for variant in edits}):
        bank = edited_bank(captured, Replace(captured.layer, tokens, donor, strength=strength))
        tensors |= {f"keys@{strength:g}": bank.keys, f"values@{strength:g}": bank.values}
    return {f"{captured.layer}.{name}": tensor for name, tensor in tensors.items()}
