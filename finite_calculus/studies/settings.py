"""Frozen settings of a study: what was decided before the run, in one canonical form.

Unknown keys are rejected and nothing can be changed afterwards, so that the canonical text of the
settings can be part of a run's fingerprint.
"""

import hashlib
import json
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field


class Frozen(BaseModel):
    """A record that cannot be changed and takes no key that it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class StudySettings(Frozen):
    """What every study decides beforehand, beside its own name in `study`.

    `batch` counts executed rows with their control: rounding depends on it, so it is a setting.
    `captures` says whether tensors are kept for replay. The bootstrap is the paper's: percentile
    intervals of 5,000 resamples of the prompts.
    """

    model: str
    seed: Annotated[int, Field(ge=0)]
    batch: Annotated[int, Field(ge=2)]
    captures: bool = True
    resamples: Annotated[int, Field(ge=1)] = 5000
    coverage: Annotated[float, Field(gt=0, lt=1)] = 0.95
    bootstrap_seed: Annotated[int, Field(ge=0)] = 981


def canonical(thing: Any) -> str:
    """The one JSON text of plain data: sorted keys, no spaces, no NaN."""
    return json.dumps(thing, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(thing: Any) -> str:
    """sha256 of the canonical text of plain data, or of bytes as they are."""
    blob = thing if isinstance(thing, bytes) else canonical(thing).encode()
    return hashlib.sha256(blob).hexdigest()
