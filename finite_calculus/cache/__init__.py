"""Decisions about a cache: what to evict, what to restore, what shrinks, and the text that follows.

Plans are exact for the queries that they were made for, at each layer; later queries need their own
evaluation.
"""

from finite_calculus.cache.allotting import (
    Allotment as Allotment,
    Outcome as Outcome,
    allot as allot,
)
from finite_calculus.cache.benefits import (
    entry_benefits as entry_benefits,
    entry_changes as entry_changes,
    reading as reading,
    relative_errors as relative_errors,
)
from finite_calculus.cache.choosing import (
    GREEDY as GREEDY,
    Choice as Choice,
    Chooser as Chooser,
    Search as Search,
)
from finite_calculus.cache.comparing import (
    CacheComparison as CacheComparison,
    Difference as Difference,
    compare_caches as compare_caches,
)
from finite_calculus.cache.disk import Disk as Disk
from finite_calculus.cache.eviction import (
    Eviction as Eviction,
    divergence as divergence,
    evict as evict,
    execute_evictions as execute_evictions,
)
from finite_calculus.cache.gate import GateReport as GateReport, transform_gate as transform_gate
from finite_calculus.cache.generation import (
    Continuations as Continuations,
    Generated as Generated,
    Row as Row,
    generate_from as generate_from,
    generate_rows as generate_rows,
    generate_with as generate_with,
)
from finite_calculus.cache.kv_error import (
    CacheError as CacheError,
    altered_caches as altered_caches,
    cache_error as cache_error,
)
from finite_calculus.cache.merging import Merge as Merge
from finite_calculus.cache.methods import (
    AttentionMass as AttentionMass,
    KeyNorm as KeyNorm,
    Method as Method,
    ObservationWindow as ObservationWindow,
    Random as Random,
    ScoredMethod as ScoredMethod,
    SinkAndRecent as SinkAndRecent,
    WriteDistortion as WriteDistortion,
    WriteGradient as WriteGradient,
)
from finite_calculus.cache.naming import named_transform as named_transform
from finite_calculus.cache.policy import Policy as Policy, Rounding as Rounding
from finite_calculus.cache.protected import Protected as Protected
from finite_calculus.cache.records import CacheRecord as CacheRecord, record as record
from finite_calculus.cache.reduced import ReducedLayer as ReducedLayer
from finite_calculus.cache.reducing import Reduction as Reduction, reducing as reducing
from finite_calculus.cache.restoring import (
    Repair as Repair,
    execute_repairs as execute_repairs,
    restore as restore,
)
from finite_calculus.cache.rounding_noise import (
    Spread as Spread,
    rounding_spread as rounding_spread,
)
from finite_calculus.cache.transforms import Quantiser as Quantiser
from finite_calculus.cache.watching import watch as watch
from finite_calculus.cache.window import QueryWindow as QueryWindow
