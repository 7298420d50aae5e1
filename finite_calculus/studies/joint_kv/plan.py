"""The units of the joint study: paired prompts of its tasks, tokenised and checked before anything runs."""

from typing import Any

from finite_calculus.harness import Plan
from finite_calculus.studies.joint_kv.settings import JointKVSettings
from finite_calculus.tasks.pairs import PairText, PairTokens, tokenise
from finite_calculus.tasks.sst2 import read_sst2, sst2_pairs
from finite_calculus.tasks.synthetic import retrieval_pair


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
