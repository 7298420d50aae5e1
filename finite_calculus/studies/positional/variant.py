"""One captured variant of a prompt set, and what each part of the study leaves of it: rows and checks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from finite_calculus.harness import Row
from finite_calculus.models import Capture, Instrument, LayerCapture
from finite_calculus.studies.positional.rows import SetRow
from finite_calculus.tasks.set_tokens import SetTokens, VariantTokens


@dataclass(frozen=True, eq=False)
class Variant:
    """A variant with its capture; the captured margin is logit(A) − logit(B)."""

    tokens: SetTokens
    number: int
    capture: Capture

    @property
    def prompt(self) -> VariantTokens:
        """Its ids and spans."""
        return self.tokens.variants[self.number]

    @property
    def preferred(self) -> str:
        """The label that the model prefers on the unedited prompt."""
        return "A" if self.capture.baseline >= 0 else "B"

    @property
    def sign(self) -> float:
        """+1 if A is preferred: what turns a change of logit(A) − logit(B) towards the preferred label."""
        return 1.0 if self.preferred == "A" else -1.0

    @property
    def place(self) -> tuple[str, int]:
        """Task and number of the set, with which every row begins."""
        return self.tokens.text.task, self.tokens.text.index


# Figures beside their bounds, by the name of the check.
Checks = Mapping[str, Sequence[tuple[float, float]]]


@dataclass(frozen=True)
class Part:
    """What one part of the study leaves of a variant; checks of one name are joined over the variants."""

    rows: Sequence[Row]
    checks: Checks


def violations(rows: Sequence[SetRow]) -> list[tuple[float, float]]:
    """Rows with a number that is not finite, of which none may be, as figures for a check."""
    return [(float(not row.finite), 0.0) for row in rows]


def capture_variant(
    instrument: Instrument, tokens: SetTokens, number: int, layers: Sequence[int]
) -> Variant:
    """Capture one variant at some layers, which must be plain rotary softmax attention."""
    answer, versus = tokens.labels
    ids = tokens.variants[number].ids
    capture = instrument.capture(ids, answer=answer, versus=versus, layers=layers)
    for layer in capture.layers:
        _require_plain(layer)
    return Variant(tokens, number, capture)


def _require_plain(layer: LayerCapture) -> None:
    """Refuse what the study does not treat: caps, sinks, windows that hide tokens, no rotation."""
    obstacles = {
        "a softcap": layer.softcap is not None,
        "sinks": layer.sinks is not None,
        "a window that hides tokens": layer.first > 0 or not bool(layer.attended.all()),
        "no rotary position": layer.rotary is None,
    }
    for name, present in obstacles.items():
        if present:
            raise ValueError(
                f"Layer {layer.layer} must be plain softmax attention with rotary position over all "
                f"tokens; it has {name}. Choose another model."
            )
