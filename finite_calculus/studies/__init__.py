"""Studies of the paper, run on native models into directories that can be resumed and replayed.

Importing this is light; the runner and the studies themselves, which need transformers, are imported
from their own files.
"""

from finite_calculus.studies.archive import archive as archive
from finite_calculus.studies.bootstrap import (
    Interval as Interval,
    cluster_means as cluster_means,
    paired_interval as paired_interval,
)
from finite_calculus.studies.records import Records as Records, read_records as read_records
from finite_calculus.studies.settings import Frozen as Frozen, StudySettings as StudySettings
from finite_calculus.studies.shards import ShardError as ShardError
from finite_calculus.studies.study import (
    NAMES as NAMES,
    Study as Study,
    UnitResult as UnitResult,
    find_study as find_study,
)
from finite_calculus.studies.summary import (
    report_tables as report_tables,
    write_summary as write_summary,
)
