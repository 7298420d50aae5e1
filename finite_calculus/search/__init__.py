"""Search: score families of edits from one capture, certify, rank, execute, construct.

Imports the core and `finite_calculus.models`. Scores are exact for the edited attention write and a
prediction beyond it; `execute_rows` and `verify_top` check them on the model.
"""

from finite_calculus.models.comparison import LocalCheck as LocalCheck, local_check as local_check
from finite_calculus.search.beyond import Calibrated as Calibrated, Downstream as Downstream
from finite_calculus.search.certificates import (
    CertifiedCounts as CertifiedCounts,
    certify_table as certify_table,
    counts as counts,
    intervals as intervals,
    tightness as tightness,
)
from finite_calculus.search.check import (
    ExecutedRow as ExecutedRow,
    Verification as Verification,
    certified_top as certified_top,
    execute_rows as execute_rows,
    verify_top as verify_top,
)
from finite_calculus.search.downstream import with_downstream as with_downstream
from finite_calculus.search.families import (
    MULTIPLIERS as MULTIPLIERS,
    TOKEN_KINDS as TOKEN_KINDS,
    Family as Family,
    donor_family as donor_family,
    span_family as span_family,
    sweep_family as sweep_family,
    token_family as token_family,
)
from finite_calculus.search.listed import combine as combine
from finite_calculus.search.native import attention_weights as attention_weights
from finite_calculus.search.score import (
    PreparedSearch as PreparedSearch,
    prepare_search as prepare_search,
    score as score,
)
from finite_calculus.search.steering import (
    PreservingCheck as PreservingCheck,
    Request as Request,
    Steering as Steering,
    check_preserving as check_preserving,
    steer as steer,
)
from finite_calculus.search.table import ScoreRow as ScoreRow, ScoreTable as ScoreTable
from finite_calculus.search.trust import calibrate as calibrate
