"""Exact finite attention responses, in torch: construct, score, certify and check attention edits.

Everything here is about the edited attention write, which is exact. What a model does with that
write downstream is a prediction, to be checked by execution.
"""

from finite_calculus.bands import (
    band_interaction as band_interaction,
    mixed_second_derivative as mixed_second_derivative,
)
from finite_calculus.certificate import (
    Certificate as Certificate,
    CertifiedOrder as CertifiedOrder,
    certified_order as certified_order,
    certified_signs as certified_signs,
    certify as certify,
    divergence as divergence,
    total_variation as total_variation,
)
from finite_calculus.control import (
    PreservingDirections as PreservingDirections,
    QueryControl as QueryControl,
    control_query as control_query,
    curvature as curvature,
    log_ratios as log_ratios,
    preserving_directions as preserving_directions,
    relative_features as relative_features,
)
from finite_calculus.deletion import (
    EvictionPlan as EvictionPlan,
    deletion_jacobian as deletion_jacobian,
    deletion_response as deletion_response,
    select_evictions as select_evictions,
)
from finite_calculus.effective import (
    EffectiveWeights as EffectiveWeights,
    affine_features as affine_features,
    anchor_bound as anchor_bound,
    anchor_residual as anchor_residual,
    augment as augment,
    effective_weights as effective_weights,
    key_shift_gauge as key_shift_gauge,
    mean_key_gauge as mean_key_gauge,
    numerical_rank as numerical_rank,
    reference_key_gauge as reference_key_gauge,
    residual_write as residual_write,
    unit_gradient_step as unit_gradient_step,
)
from finite_calculus.joint import (
    JointResponse as JointResponse,
    decompose as decompose,
    interaction as interaction,
    key_response as key_response,
    linear_response as linear_response,
    quadratic_interaction as quadratic_interaction,
    remainder_weights as remainder_weights,
    softmax_remainder as softmax_remainder,
    value_response as value_response,
)
from finite_calculus.margin import (
    contract as contract,
    head_gradient as head_gradient,
    project as project,
)
from finite_calculus.phi import phi1 as phi1, phi2 as phi2
from finite_calculus.positional import (
    key_shift_scores as key_shift_scores,
    key_shift_scores_linear as key_shift_scores_linear,
    key_shift_scores_remainder as key_shift_scores_remainder,
    positional_jacobian as positional_jacobian,
    rotary_remainder as rotary_remainder,
)
from finite_calculus.quantise import quantise as quantise
from finite_calculus.readout import Readout as Readout, freeze as freeze
from finite_calculus.regression import (
    aligned_rate as aligned_rate,
    regression_step as regression_step,
)
from finite_calculus.reordering import (
    PhaseContext as PhaseContext,
    phase_context as phase_context,
    signed_projections as signed_projections,
)
from finite_calculus.response import (
    finite_response as finite_response,
    log_normaliser as log_normaliser,
    log_ratio as log_ratio,
    probability_change as probability_change,
)
from finite_calculus.restoration import (
    CachePair as CachePair,
    Restoration as Restoration,
    restoration_benefit as restoration_benefit,
    restoration_response as restoration_response,
    restoration_scores as restoration_scores,
    restore_greedily as restore_greedily,
)
from finite_calculus.rotary import (
    Rotary as Rotary,
    chord_norm as chord_norm,
    displacement as displacement,
    frequency_bands as frequency_bands,
    generator as generator,
    phi1_rotary as phi1_rotary,
    rotate as rotate,
    tangent as tangent,
    tangent_norm as tangent_norm,
)
from finite_calculus.rounding import (
    Tracked as Tracked,
    error_of as error_of,
    track as track,
    upper as upper,
    value_of as value_of,
)
from finite_calculus.singles import (
    PreparedSingles as PreparedSingles,
    prepare_singles as prepare_singles,
)
from finite_calculus.spans import (
    Bank as Bank,
    prepare_spans as prepare_spans,
    read_bank as read_bank,
)
from finite_calculus.sparse import PreparedGroups as PreparedGroups, prepare as prepare

__version__ = "0.1.0"
