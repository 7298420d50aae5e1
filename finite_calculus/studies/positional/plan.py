"""The units of a stage: prompt sets of its families."""

from typing import Any

from finite_calculus.harness import Plan
from finite_calculus.studies.positional.settings import PositionalSettings
from finite_calculus.tasks.prompt_sets import Stream
from finite_calculus.tasks.set_plans import tokenised_sets
from finite_calculus.tasks.set_tokens import SetTokens


def plan_sets(
    settings: PositionalSettings, stage: str, tokenizer: Any, context: int
) -> Plan[SetTokens]:
    """All sets of a stage, one of each family in turn, so that a part of a run is a balanced one."""
    stream: Stream = "calibration" if stage == "calibration" else "test"
    sets, manifest = tokenised_sets(
        settings.families if stream == "calibration" else settings.tasks,
        stream,
        {"calibration": settings.calibration_sets, "test": settings.sets},
        tokenizer,
        context,
        seed=settings.seed,
        data=settings.data,
    )
    # Sorting is stable: families keep their order in every turn.
    turns = dict(sorted(sets.items(), key=lambda item: item[1].text.index))
    return Plan(turns, manifest, next(iter(sets.values())).variants[0].ids)
