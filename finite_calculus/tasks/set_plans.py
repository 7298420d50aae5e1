"""All prompt sets of some families in one stream, tokenised and checked before anything runs."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from finite_calculus.tasks.prompt_sets import PromptSet, Stream
from finite_calculus.tasks.set_families import Family, family_sets
from finite_calculus.tasks.set_tokens import SetTokens, tokenise_set
from finite_calculus.tasks.sst2 import read_sst2
from finite_calculus.tasks.sst2_sets import sst2_sets


def tokenised_sets(
    families: Sequence[str],
    stream: Stream,
    counts: Mapping[Stream, int],
    tokenizer: Any,
    context: int,
    *,
    seed: int,
    data: Path | None,
) -> tuple[dict[str, SetTokens], dict[str, Any]]:
    """Sets by unit, and their manifest; `counts` are those of both streams, `data` is SST-2's folder.

    The first set that does not fit is refused.
    """
    count, manifest = counts[stream], {}
    texts: list[PromptSet] = []
    for family in families:
        if family == "sst2":
            sentences = read_sst2(data)
            manifest["sst2"] = sentences.manifest()
            other = sum(counts.values()) - count
            texts += sst2_sets(sentences, stream, count, other, seed=seed)
        else:
            texts += family_sets(cast("Family", family), stream, count, seed=seed)
    sets = {text.unit: tokenise_set(text, tokenizer, context) for text in texts}
    return sets, {**manifest, "sets": [tokens.manifest() for tokens in sets.values()]}
