"""Decisions about a cache: what to evict, what to restore, and the text that follows.

Plans are exact for the current query's write at each layer; future queries need their own evaluation.
"""

from finite_calculus.cache.eviction import (
    Eviction as Eviction,
    evict as evict,
    execute_evictions as execute_evictions,
)
from finite_calculus.cache.generation import (
    Continuations as Continuations,
    Generated as Generated,
    Row as Row,
    generate_rows as generate_rows,
    generate_with as generate_with,
)
from finite_calculus.cache.restoring import (
    Repair as Repair,
    execute_repairs as execute_repairs,
    restore as restore,
)
