"""The joint key–value study: donor keys, values and both at every span, predicted and executed.

The paper's initial single-layer run and its supplement (sec:jointexperiment, app:jointinitial,
app:jointsupplement): paired prompts, eight spans each, three kinds of replacement, fractional
strengths at one setting. Nothing is filtered by what the model answers or by what an edit does.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator
from torch import Tensor

from finite_calculus.checkpoints import checkpoint
from finite_calculus.checkpoints.tasks import PAPER_SEED, retrieval_pair
from finite_calculus.models import Instrument
from finite_calculus.models.capture import projection_weights
from finite_calculus.studies import joint_audit, joint_records, joint_replay, joint_report
from finite_calculus.studies.prompts import PairText, PairTokens, tokenise
from finite_calculus.studies.settings import Frozen, StudySettings
from finite_calculus.studies.sst2 import read_sst2, sst2_pairs
from finite_calculus.studies.study import Prompts, Study, UnitResult

# ---- settings ----

Task = Literal["retrieval", "sst2"]
Design = Literal["supplement", "initial"]
TASKS: tuple[Task, ...] = ("retrieval", "sst2")
# Layers of the supplement, by the paper; for other models a quarter, half and three quarters deep.
PAPER_LAYERS = {"qwen2.5-0.5b-instruct": (18,), "qwen2.5-1.5b-instruct": (14, 21)}
# Four patched rows and a control in the supplement; all 24 patches of a prompt in the initial run.
BATCH = {"supplement": 5, "initial": 32}
STRENGTHS = (0.1, 0.5)


class Place(Frozen):
    """A task and a layer; joint edits run at every strength, the other kinds at 1 only."""

    task: Task
    layer: Annotated[int, Field(ge=0)]
    strengths: tuple[Annotated[float, Field(gt=0, le=1)], ...] = (1.0,)


class JointKVSettings(StudySettings):
    """Frozen settings of one run: which places, how many pairs."""

    study: Literal["joint-kv"] = "joint-kv"
    places: tuple[Place, ...] = Field(min_length=1)
    pairs: Annotated[int, Field(ge=1)] = 32
    seed: Annotated[int, Field(ge=0)] = PAPER_SEED
    batch: Annotated[int, Field(ge=2)] = BATCH["supplement"]

    @model_validator(mode="after")
    def _distinct(self) -> "JointKVSettings":
        listed = [(place.task, place.layer) for place in self.places]
        if len(set(listed)) != len(listed):
            raise ValueError("`places` must name every task and layer once; one is repeated.")
        if any(place.strengths[:1] != (1.0,) for place in self.places):
            raise ValueError("`strengths` must begin with 1, the full replacement.")
        return self

    @property
    def tasks(self) -> tuple[Task, ...]:
        """The tasks in their fixed order."""
        return tuple(task for task in TASKS if any(place.task == task for place in self.places))

    def at(self, task: str) -> tuple[Place, ...]:
        """The places of one task, by layer."""
        return tuple(
            sorted((p for p in self.places if p.task == task), key=lambda place: place.layer)
        )


def joint_settings(
    model: str,
    *,
    design: Design = "supplement",
    tasks: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    strengths: Sequence[float] | None = None,
    pairs: int = 32,
    seed: int = PAPER_SEED,
    batch: int | None = None,
    captures: bool = True,
) -> JointKVSettings:
    """Settings of a design on a known model; what is not given is as in the paper.

    `strengths` below 1 are swept at the deepest layer of the first task.
    """
    depth = checkpoint(model).architecture.layers
    chosen = tuple(tasks or (TASKS if design == "supplement" else TASKS[:1]))
    deep = tuple(sorted(set(layers if layers is not None else _layers(model, design, depth))))
    wrong = [layer for layer in deep if layer not in range(depth)]
    if wrong or not deep:
        raise ValueError(f"`layers` must lie in 0..{depth - 1} of {model}; got {wrong or 'none'}.")
    if strengths is None:
        strengths = () if design == "initial" or "0.5b" in model else STRENGTHS
    swept = (chosen[0], deep[-1])
    places = [
        Place.model_validate(
            {"task": task, "layer": layer, "strengths": (1.0, *strengths)}
            if (task, layer) == swept
            else {"task": task, "layer": layer}
        )
        for task in chosen
        for layer in deep
    ]
    return JointKVSettings(
        model=model,
        places=tuple(places),
        pairs=pairs,
        seed=seed,
        batch=BATCH[design] if batch is None else batch,
        captures=captures,
    )


def _layers(model: str, design: Design, depth: int) -> tuple[int, ...]:
    if design == "initial":
        return (3 * depth // 4,)
    return PAPER_LAYERS.get(model, (depth // 4, depth // 2, 3 * depth // 4))


def command_options(settings: JointKVSettings) -> list[str]:
    """The options that reproduce the settings; DIR stands for a folder of the user."""
    layers = sorted({place.layer for place in settings.places})
    swept = {s for place in settings.places for s in place.strengths if s != 1}
    words = ["--model", settings.model]
    for task in settings.tasks:
        words += ["--task", task]
    words += ["--layers", ",".join(map(str, layers))]
    words += ["--strengths", ",".join(f"{s:g}" for s in sorted(swept)) or "none"]
    words += ["--pairs", str(settings.pairs), "--seed", str(settings.seed)]
    words += ["--batch", str(settings.batch)]
    words += [] if settings.captures else ["--no-captures"]
    return words + (["--data", "DIR"] if "sst2" in settings.tasks else [])


# ---- prompts ----


def retrieval_text(pair: int, seed: int) -> PairText:
    """One of the paper's retrieval pairs as text."""
    baseline, donor = retrieval_pair(pair, seed=seed)
    return PairText(
        task="retrieval",
        pair=pair,
        opening=baseline.instruction,
        records=baseline.records,
        donor_records=donor.records,
        question=baseline.question,
        answer=baseline.answer,
        source={"seed": [seed, pair]},
    )


def make_prompts(settings: JointKVSettings, tokenizer: Any, data: Path | None) -> Prompts:
    """All pairs of a run, tokenised and checked; the first one that does not fit is refused."""
    context = checkpoint(settings.model).architecture.context
    texts: list[PairText] = []
    manifest: dict[str, Any] = {}
    if "retrieval" in settings.tasks:
        texts += [retrieval_text(u, settings.seed) for u in range(settings.pairs)]
    if "sst2" in settings.tasks:
        sentences = read_sst2(data)
        texts += sst2_pairs(sentences, settings.pairs, settings.seed)
        manifest["sst2"] = sentences.manifest()
    pairs = {text.unit: tokenise(text, tokenizer, context) for text in texts}
    manifest["pairs"] = [pair.manifest() for pair in pairs.values()]
    return Prompts(tuple(pairs), manifest, next(iter(pairs.values())).baseline, pairs)


# ---- run ----


def shared_weights(instrument: Instrument, settings: JointKVSettings) -> dict[str, Tensor]:
    """Output projections of the studied layers, which are the same for every unit."""
    sites = instrument.support.sites
    heads = checkpoint(settings.model).architecture.heads
    return {
        f"{layer}.output_projection": projection_weights(sites[layer].projection, heads)[0]
        for layer in sorted({place.layer for place in settings.places})
    }


def run_unit(
    instrument: Instrument, settings: JointKVSettings, prompts: Prompts, unit: str
) -> UnitResult:
    """Capture one pair, predict every edit at every layer of its task, execute them all."""
    pair: PairTokens = prompts.content[unit]
    places = settings.at(pair.text.task)
    layers = [place.layer for place in places]
    answer, versus = pair.labels
    baseline, donor = (
        instrument.capture(ids, answer=answer, versus=versus, layers=layers)
        for ids in (pair.baseline, pair.donor)
    )
    tables: dict[str, list[dict[str, Any]]] = {"records": [], "audit": []}
    tensors: dict[str, Tensor] = {}
    for place in places:
        edits = joint_records.variants(pair.spans, place.strengths)
        found = joint_records.run_place(
            instrument, pair, place.layer, edits, baseline, donor, batch=settings.batch
        )
        tables["records"] += found.records
        tables["audit"].append(found.audit)
        tensors |= found.tensors
    return UnitResult(tables, tensors)


# ---- report ----

STUDY = Study(
    name="joint-kv",
    settings=JointKVSettings,
    schemas={"records": joint_records.RECORDS, "audit": joint_audit.AUDIT},
    prompts=make_prompts,
    weights=shared_weights,
    unit=run_unit,
    replay=joint_replay.replay_unit,
    report=joint_report.report,
    options=command_options,
)
