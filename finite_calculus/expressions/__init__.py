"""Expressions that a model wrote: read over an allow-list, computed in a confined process, never by `eval`.

`evaluate` is the door for a whole expression: its text goes to a child process, which reads it, computes it
on some inputs and answers with values or a reason. Only the standard library is imported here, so that the
child starts at once and holds nothing that is worth reaching.
"""

from finite_calculus.expressions.confinement import (
    Confined as Confined,
    Limits as Limits,
    run_confined as run_confined,
)
from finite_calculus.expressions.contract import Contract as Contract, Value as Value
from finite_calculus.expressions.evaluation import (
    Evaluation as Evaluation,
    evaluate as evaluate,
)
from finite_calculus.expressions.grammar import (
    Bounds as Bounds,
    RefusedError as RefusedError,
    parse as parse,
)
from finite_calculus.expressions.operations import OPERATIONS as OPERATIONS
