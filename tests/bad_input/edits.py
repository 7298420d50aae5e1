"""The functions of a readout and an increment of its scores or values."""

from collections.abc import Callable

from torch import Tensor

import finite_calculus as fc
from tests.bad_input.inputs import KEYS, WIDTH
from tests.helpers.tensors import draw

SCORE_EDITS: dict[str, Callable[[fc.Readout, Tensor], object]] = {
    "log_ratio": fc.log_ratio,
    "probability_change": fc.probability_change,
    "log_normaliser": fc.log_normaliser,
    "finite_response": fc.finite_response,
    "key_response": fc.key_response,
    "linear_response": fc.linear_response,
    "softmax_remainder": fc.softmax_remainder,
    "remainder_weights": fc.remainder_weights,
    "divergence": fc.divergence,
    "total_variation": fc.total_variation,
    "positional_jacobian": fc.positional_jacobian,
    "rotary_remainder": fc.rotary_remainder,
    "band_interaction": lambda r, d: fc.band_interaction(r, draw(KEYS), d),
    "mixed_second_derivative": lambda r, d: fc.mixed_second_derivative(r, draw(KEYS), d),
    "interaction": lambda r, d: fc.interaction(r, d, draw(KEYS, WIDTH)),
    "quadratic_interaction": lambda r, d: fc.quadratic_interaction(r, d, draw(KEYS, WIDTH)),
    "decompose": lambda r, d: fc.decompose(r, d, draw(KEYS, WIDTH)),
    "certify": lambda r, d: fc.certify(r, d, draw(KEYS, WIDTH), draw(WIDTH)),
}

VALUE_EDITS: dict[str, Callable[[fc.Readout, Tensor], object]] = {
    "finite_response": lambda r, e: fc.finite_response(r, draw(KEYS), e),
    "value_response": fc.value_response,
    "interaction": lambda r, e: fc.interaction(r, draw(KEYS), e),
    "quadratic_interaction": lambda r, e: fc.quadratic_interaction(r, draw(KEYS), e),
    "decompose": lambda r, e: fc.decompose(r, draw(KEYS), e),
    "certify": lambda r, e: fc.certify(r, draw(KEYS), e, draw(WIDTH)),
    "restoration_response": lambda r, e: fc.restoration_response(r, draw(KEYS), e),
}
