"""The units of a stage: prompt sets of its families, tokenised and checked before anything runs."""

from typing import Any, cast

from finite_calculus.harness import Plan
from finite_calculus.studies.positional.settings import PositionalSettings
from finite_calculus.tasks.prompt_sets import PromptSet, Stream
from finite_calculus.tasks.set_families import Family, family_sets
from finite_calculus.tasks.set_tokens import SetTokens, tokenise_set
from finite_calculus.tasks.sst2 import read_sst2
from finite_calculus.tasks.sst2_sets import sst2_sets


def plan_sets(
    settings: PositionalSettings, stage: str, tokenizer: Any, context: int
) -> Plan[SetTokens]:
    """All sets of a stage; the first one that does not fit is refused."""
    stream: Stream = "calibration" if stage == "calibration" else "test"
    counts = {"calibration": settings.calibration_sets, "test": settings.sets}
    families = settings.families if stream == "calibration" else settings.tasks
    count, seed = counts[stream], settings.seed
    texts: list[PromptSet] = []
    manifest: dict[str, Any] = {}
    for family in families:
        if family == "sst2":
            data = read_sst2(settings.data)
            manifest["sst2"] = data.manifest()
            other = sum(counts.values()) - count
            texts += sst2_sets(data, stream, count, other, seed=seed)
        else:
            texts += family_sets(cast("Family", family), stream, count, seed=seed)
    sets = {text.unit: tokenise_set(text, tokenizer, context) for text in texts}
    manifest["sets"] = [tokens.manifest() for tokens in sets.values()]
    return Plan(sets, manifest, next(iter(sets.values())).variants[0].ids)
