"""Where a loaded model came from, in words that may stand in a record: never a path of a machine."""

from dataclasses import dataclass
from typing import Any, Literal

_ATTRIBUTE = "finite_calculus_origin"


@dataclass(frozen=True)
class Origin:
    """The kind of source and its name; for the hub also the repository and the commit that was loaded."""

    kind: Literal["name", "folder", "hub"]
    name: str
    repository: str = ""
    commit: str = ""

    @property
    def label(self) -> str:
        """What a headline calls the model: `embedded`, `model (folder)` or `owner/name@commit`."""
        if self.kind == "folder":
            return f"{self.name} (folder)"
        return f"{self.name}@{self.commit}" if self.kind == "hub" else self.name

    def record(self) -> dict[str, str]:
        """The entries of a fingerprint; what a source has not is left out."""
        entries = {
            "source": self.kind,
            "source_name": self.name,
            "source_repository": self.repository,
            "source_commit": self.commit,
        }
        return {key: text for key, text in entries.items() if text}


def set_origin(model: Any, origin: Origin) -> None:
    """Let a model carry its origin, so that a fingerprint of the model alone can name it."""
    setattr(model, _ATTRIBUTE, origin)


def origin_of(model: Any) -> Origin | None:
    """The origin of a model that `load` made; None for any other."""
    return getattr(model, _ATTRIBUTE, None)
