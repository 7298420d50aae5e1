"""What is refused of models and what a supported model restricts, each with its reason, in one place.

`models.support` and the probe say these words when they refuse, docs/models.md shows them as a table, and a
test builds a tiny model of every family that is named. Plain data: read without torch.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType


@dataclass(frozen=True)
class Refusal:
    """Models of a kind, families of transformers that are of it, and why they are refused."""

    models: str
    families: tuple[str, ...]
    reason: str


REFUSALS: Mapping[str, Refusal] = MappingProxyType(
    {
        "no interface": Refusal(
            "no attention interface",
            ("falcon", "bloom", "gptj", "mpt"),
            "attention cannot be reached without rewriting the model",
        ),
        "hybrid": Refusal(
            "layers without softmax attention",
            ("qwen3_next",),
            "what such a layer keeps of a token is no key and value that an edit could replace",
        ),
        "indexed": Refusal(
            "layers whose indexer picks the keys that a query reads",
            ("deepseek_v32",),
            "the indexer has keys of its own, by which it would pick other tokens than an edit says",
        ),
        "latent": Refusal(
            "a cache of latents (MLA), of commands that read or rewrite the cache itself (`kv-error`, "
            "`compare-cache`, caches that shrink)",
            (),
            "the cache holds no keys and values, every pass makes them anew of latents: edit those that "
            "attention reads with `execute`, `score`, `evict` or `restore`",
        ),
        "shared": Refusal(
            "keys and values shared by layers",
            ("gemma3n_text",),
            "an edit would act in several layers at once",
        ),
        "encoder": Refusal(
            "encoder–decoders",
            ("t5",),
            "there is no one causal sequence whose last token reads the others",
        ),
        "offloaded": Refusal(
            "weights offloaded to disk or to the host (`device_map` with too little room)",
            (),
            "they are nowhere between two passes, and bounds and predictions are made of them then",
        ),
        "unmoved": Refusal(
            "weights on several devices without accelerate's hooks",
            (),
            "nothing would move what passes from one to the other",
        ),
        "images": Refusal(
            "a multimodal model that has seen an image",
            (),
            "it keeps the image's shift of positions for the next text: make it forget, or load it again",
        ),
    }
)
