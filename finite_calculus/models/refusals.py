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
        "latent": Refusal(
            "compressed keys and values (MLA)",
            ("deepseek_v2", "deepseek_v3"),
            "the cache holds latents, from which every pass makes the keys and values of all heads anew: "
            "rounded otherwise in each row, so that rows share no prefix that could be edited and checked",
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
        "devices": Refusal(
            "weights on several devices, or offloaded to disk or to the host (`device_map`)",
            (),
            "hooks on the very modules that are measured would move what passes, and nothing here has run so",
        ),
        "images": Refusal(
            "a multimodal model that has seen an image",
            (),
            "it keeps the image's shift of positions for the next text: make it forget, or load it again",
        ),
    }
)
