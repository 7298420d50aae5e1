"""The harness of all studies: plan, gate, units, records, checks, replay, tables. It knows no study by name.

What a study needs to be written; running one is `finite_calculus.harness.runner.run`, or the command line.
"""

from finite_calculus.harness.bootstrap import (
    Interval as Interval,
    cluster_means as cluster_means,
    paired_interval as paired_interval,
)
from finite_calculus.harness.checks import Check as Check, compare as compare, count as count
from finite_calculus.harness.errors import (
    ChangedRunError as ChangedRunError,
    GateShutError as GateShutError,
    StoreError as StoreError,
    UnitError as UnitError,
)
from finite_calculus.harness.figures import (
    Figure as Figure,
    Panel as Panel,
    Series as Series,
)
from finite_calculus.harness.registry import find_study as find_study, study_names as study_names
from finite_calculus.harness.rows import Row as Row, Tables as Tables
from finite_calculus.harness.settings import (
    Folder as Folder,
    Frozen as Frozen,
    Layers as Layers,
    ModelSettings as ModelSettings,
    OptionName as OptionName,
    StudySettings as StudySettings,
    require_layers as require_layers,
)
from finite_calculus.harness.study import (
    Comparison as Comparison,
    Plan as Plan,
    Policy as Policy,
    Records as Records,
    Replayable as Replayable,
    Study as Study,
    UnitResult as UnitResult,
)
from finite_calculus.harness.subjects import ModelSubject as ModelSubject
from finite_calculus.harness.tables import Table as Table
