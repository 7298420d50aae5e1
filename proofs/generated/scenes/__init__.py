"""Which scene an entry is evaluated in: that of its topic, unless the entry needs another."""

from __future__ import annotations

import functools
import importlib

from proofs.catalogue import TOPICS
from proofs.entry import Entry
from proofs.generated.environment import Scene
from proofs.generated.scenes import bank, control, edits, gauge, head, positional, rotary, studies

BY_TOPIC: dict[str, Scene] = {
    "phi": rotary.PHI,
    "rotary": rotary.ROTARY,
    "positional": positional.PLANES,
    "readout": bank.READOUT,
    "response": bank.RESPONSE,
    "joint": bank.JOINT,
    "quadratic": bank.QUADRATIC,
    "margin": control.MARGIN,
    "certificate": bank.CERTIFICATE,
    "sparse": edits.SPARSE,
    "effective": head.EFFECTIVE,
    "gauge": gauge.GAUGE,
    "curvature": gauge.CURVATURE,
    "control": control.CONTROL,
    "bands": edits.BANDS,
    "reordering": studies.REORDERING,
    "deletion": edits.DELETION,
    "quantise": studies.FREE,
    "restoration": edits.RESTORATION,
    "regression": studies.REGRESSION,
    "studies": studies.STUDIES,
}
# Entries about other things than the rest of their topic.
BY_LABEL: dict[str, Scene] = {
    "main:tworemainders": positional.POSITIONAL,
    "unlabelled:band-additivity": positional.BAND_PLANES,
    "main:certificate": bank.CONTRACTED,
    "eq:features": head.FEATURES,
    "eq:residual": head.RESIDUAL,
    "eq:bound": studies.FREE,
    "main:querycontrol": studies.FREE,
    "unlabelled:all-solutions": studies.FREE,
    "needed:stable-benefit": edits.BENEFIT,
    "eq:alignedeta": studies.FREE,
}


def scene_of(entry: Entry) -> Scene:
    """The scene of an entry; one whose topic has none is left to its statements' own models."""
    if entry.label in BY_LABEL:
        return BY_LABEL[entry.label]
    return BY_TOPIC.get(_topics().get(entry.label, ""), studies.FREE)


@functools.cache
def _topics() -> dict[str, str]:
    return {
        entry.label: topic
        for topic in TOPICS
        for entry in importlib.import_module(f"proofs.topics.{topic}").ENTRIES
    }
