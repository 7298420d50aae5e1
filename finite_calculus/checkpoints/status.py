"""What is here: whether each known checkpoint can be loaded without a network, and from where."""

import dataclasses
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from finite_calculus.checkpoints.cache import MANIFEST, cache_directory
from finite_calculus.checkpoints.embedded_files import embedded_directory
from finite_calculus.checkpoints.registry import (
    KNOWN,
    Checkpoint,
    Embedded,
    Hub,
    Packaged,
    checkpoint,
)


@dataclass(frozen=True)
class Listing:
    """One line of `finite-calculus models`."""

    name: str
    what: str
    source: str
    pinned: str
    licence: str
    family: str
    layers: int
    heads: int
    groups: int
    head_width: int
    context: int
    chat: bool
    here: bool
    place: str

    def as_dict(self) -> dict[str, object]:
        return dataclasses.asdict(self)


def available(name: str, *, cache: Path | str | None = None) -> bool:
    """Whether `load(name)` needs no network. Hashes are checked on loading, not here."""
    return _here(checkpoint(name), cache)


def listing(*, cache: Path | str | None = None) -> tuple[Listing, ...]:
    """Every known checkpoint: what it is, how it is pinned, and whether it is here."""
    return tuple(_listed(known, cache) for known in KNOWN.values())


def packaged_directory(known: Checkpoint, cache: Path | str | None) -> Path:
    """Where a converted checkpoint is kept; the pin is part of the name, so that pins never mix."""
    if not isinstance(known.source, Packaged):
        raise ValueError(f"`known` must come from a registry package; got {known.name!r}.")
    return cache_directory(cache) / known.name / known.source.sha256[:16]


def hub_cache(cache: Path | str | None) -> Path | None:
    """The hub's own cache, unless a cache directory is given."""
    return None if cache is None else cache_directory(cache) / "hub"


def _here(known: Checkpoint, cache: Path | str | None) -> bool:
    if isinstance(known.source, Embedded):
        return (embedded_directory() / "model.safetensors").exists()
    if isinstance(known.source, Packaged):
        return (packaged_directory(known, cache) / MANIFEST).exists()
    if isinstance(known.source, Hub):
        return _in_hub_cache(known.source, cache)
    return True


def _in_hub_cache(source: Hub, cache: Path | str | None) -> bool:
    if importlib.util.find_spec("huggingface_hub") is None:
        return False
    from huggingface_hub import try_to_load_from_cache  # slow to import, and optional

    wanted = ("config.json", "model.safetensors", "tokenizer.json")
    paths = [
        try_to_load_from_cache(
            source.repository, file, cache_dir=hub_cache(cache), revision=source.revision
        )
        for file in wanted
    ]
    return all(isinstance(path, str) for path in paths)


def _listed(known: Checkpoint, cache: Path | str | None) -> Listing:
    source, shape = known.source, known.architecture
    if isinstance(source, Embedded):
        words = ("this package", "sha256 in its training record", str(embedded_directory()))
    elif isinstance(source, Packaged):
        packages = " + ".join(f"{a.registry} {a.package} {a.version}" for a in source.archives)
        words = (packages, f"sha256 {source.sha256}", str(packaged_directory(known, cache)))
    elif isinstance(source, Hub):
        pin = f"revision {source.revision} ({source.revision_from})"
        words = (f"hub {source.repository}", pin, str(hub_cache(cache) or "the hub's own cache"))
    else:
        words = ("random from a configuration", f"seed {source.seed}", "built when loaded")
    return Listing(
        name=known.name,
        what=known.what,
        source=words[0],
        pinned=words[1],
        licence=known.licence,
        family=shape.family,
        layers=shape.layers,
        heads=shape.heads,
        groups=shape.groups,
        head_width=shape.head_width,
        context=shape.context,
        chat=known.chat,
        here=_here(known, cache),
        place=words[2],
    )
