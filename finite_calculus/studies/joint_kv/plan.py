"""The units of the joint study: paired prompts of its tasks, tokenised and checked before anything runs."""

from typing import Any

from finite_calculus.harness import Plan
from finite_calculus.studies.joint_kv.settings import JointKVSettings
from finite_calculus.tasks.pairs import PairText, PairTokens, retrieval_text, tokenise
from finite_calculus.tasks.sst2 import read_sst2, sst2_pairs


def plan_pairs(settings: JointKVSettings, tokenizer: Any, context: int) -> Plan[PairTokens]:
    """All pairs of a run; the first one that does not fit is refused."""
    texts: list[PairText] = []
    manifest: dict[str, Any] = {}
    if "retrieval" in settings.tasks:
        texts += [retrieval_text(u, settings.seed) for u in range(settings.pairs)]
    if "sst2" in settings.tasks:
        sentences = read_sst2(settings.data)
        texts += sst2_pairs(sentences, settings.pairs, settings.seed)
        manifest["sst2"] = sentences.manifest()
    pairs = {text.unit: tokenise(text, tokenizer, context) for text in texts}
    manifest["pairs"] = [pair.manifest() for pair in pairs.values()]
    return Plan(pairs, manifest, next(iter(pairs.values())).baseline)
