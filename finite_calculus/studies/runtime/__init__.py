"""Time of local responses: dense recomputation, fused attention and the sparse evaluator, side by side.

The paper's runtime comparison (sec:jointruntime): a native capture and six synthetic cases, prepared
scoring, one strength and three strengths with preparation charged, rounds in random order, audits against
float64. Only local evaluation is timed: no model runs, and the gradient is given. Timings: another run gives
other numbers.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, ClassVar

from finite_calculus.harness import Figure, Plan, Policy, Records, Row, Study, Table, UnitResult
from finite_calculus.studies.runtime import rows
from finite_calculus.studies.runtime.figures import figure
from finite_calculus.studies.runtime.report import report
from finite_calculus.studies.runtime.settings import RuntimeSettings as RuntimeSettings

if TYPE_CHECKING:
    from finite_calculus.harness.subjects import ModelSubject
    from finite_calculus.studies.runtime.unit import Case


class Runtime(Study["RuntimeSettings", "Case"]):
    """One unit for each case."""

    name: ClassVar[str] = "runtime"
    Settings = RuntimeSettings
    tables: ClassVar[Mapping[str, type[Row]]] = {
        "timings": rows.Timing,
        "audits": rows.Audit,
        "machines": rows.Machine,
    }
    repeatable: ClassVar[bool] = False

    def plan(
        self, subject: "ModelSubject", settings: RuntimeSettings, stage: str, policy: Policy | None
    ) -> "Plan[Case]":
        """Native cases first, then every number of tokens with every number of candidates."""
        from finite_calculus.studies.runtime.unit import Case
        from finite_calculus.tasks.pairs import retrieval_text, tokenise

        pair = tokenise(retrieval_text(0, settings.seed), subject.tokenizer, subject.context)
        cases = {
            f"native-{layer:03d}": Case(f"native, layer {layer}", pair, layer)
            for layer in settings.layers
        }
        cases |= {
            f"synthetic-{tokens}-{candidates}": Case(
                f"synthetic, {tokens} tokens, {candidates} spans",
                tokens=tokens,
                candidates=candidates,
            )
            for tokens in settings.tokens
            for candidates in settings.candidates
        }
        return Plan(cases, {"native": pair.manifest(), "cases": list(cases)}, pair.baseline)

    def run(
        self,
        subject: "ModelSubject",
        settings: RuntimeSettings,
        unit: "Case",
        policy: Policy | None,
    ) -> UnitResult:
        """Time and audit one case."""
        from finite_calculus.studies.runtime.unit import run_case

        return run_case(subject.instrument, settings, unit)

    def report(self, settings: RuntimeSettings, records: Records) -> Iterable[Table]:
        """Medians, quartiles, audits and the machine."""
        return report(records)

    def figures(self, settings: RuntimeSettings, records: Records) -> Iterable[Figure]:
        """Times by case and method."""
        yield figure(records.rows(rows.Timing))


STUDY = Runtime()
