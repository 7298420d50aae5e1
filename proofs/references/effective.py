"""References for effective weights, projections and the small learners, from their definitions.

Readouts are softmaxes. Only what the paper defines by φ₁ calls it, as the quotient (eˣ − 1)/x: the
coefficients c = φ₁(s)/Z and what is made of them (ΔM, the residuals of an anchor, the curvature).
"""

from proofs.references.rotary import rotate, score_scale, tangent
from proofs.references.vectors import (
    Matrix,
    Number,
    Vector,
    add,
    attend,
    dot,
    scatter,
    softmax,
    sub,
    total,
    weigh,
)


def phi1(num, x, **_) -> Vector:
    """(eˣ − 1)/x, and 1 at zero."""
    return [(num.exp(a) - num.real(1.0)) / a if a != 0 else num.real(1.0) for a in x]


def phi2(num, x, **_) -> Vector:
    """(eˣ − 1 − x)/x², and 1/2 at zero."""
    one, half = num.real(1.0), num.real(0.5)
    return [(num.exp(a) - one - a) / (a * a) if a != 0 else half for a in x]


def affine_features(num, query_weight, query_bias, keys, scaling, position, **rotary) -> Matrix:
    """a_j = Ŵ_q R(p)ᵀ k̃_j/τ."""
    rows = [*query_weight, query_bias]
    turned = [rotate(num, **{**rotary, "vector": key, "shift": -position}) for key in keys]
    scale = score_scale(num, keys[0], scaling)
    return [[dot(num, row, key) * scale for row in rows] for key in turned]


def output(num, query_input, features, values, mask, **_) -> Vector:
    """Softmax readout of the affine scores uᵀa."""
    scores = [dot(num, query_input, a) for a in attend(mask, features)]
    return weigh(num, softmax(num, scores), attend(mask, values))


def coefficients(num, query_input, features, gauge, mask, **_) -> Vector:
    """φ1(s)/Σe^s with s = uᵀ(a − g)."""
    scores = [dot(num, query_input, sub(a, gauge)) for a in attend(mask, features)]
    mass = total(num, (num.exp(s) for s in scores))
    return scatter(num, mask, [value / mass for value in phi1(num, scores)])


def matrix(num, query_input, features, values, gauge, mask, **_) -> Matrix:
    """ΔM = Σ c a (v − μ)."""
    weights = attend(mask, coefficients(num, query_input, features, gauge, mask))
    shifted = [sub(a, gauge) for a in attend(mask, features)]
    centred = _centred(num, attend(mask, values))
    return [
        weigh(num, [c * a[i] for c, a in zip(weights, shifted, strict=True)], centred)
        for i in range(len(query_input))
    ]


def anchor_residual(num, query_input, anchor_input, features, values, mask, **_) -> Matrix:
    """(c_j − c_j^anchor)(uᵀa_j)(v_j − μ), in the original-score gauge."""
    zero = [num.real(0.0)] * len(query_input)
    here = coefficients(num, query_input, features, zero, mask)
    there = coefficients(num, anchor_input, features, zero, mask)
    scores = [dot(num, query_input, a) for a in features]
    change = [(c - b) * s for c, b, s in zip(here, there, scores, strict=True)]
    rows = _centred_rows(num, values, mask)
    return [[x * v for v in row] for x, row in zip(change, rows, strict=True)]


def anchor_error(num, **case) -> Vector:
    """y − (μ + uᵀΔM_anchor), the residuals of all tokens together."""
    rows = anchor_residual(num, **case)
    return [total(num, column) for column in zip(*rows, strict=True)]


def matrix_terms(num, query_input, features, values, gauge, mask, **_) -> Matrix:
    """Σ c |a| |v − μ|: the size of what each entry of ΔM is summed from."""
    weights = attend(mask, coefficients(num, query_input, features, gauge, mask))
    shifted = [_sizes(sub(a, gauge)) for a in attend(mask, features)]
    centred = [_sizes(v) for v in _centred(num, attend(mask, values))]
    return [
        weigh(num, [c * a[i] for c, a in zip(weights, shifted, strict=True)], centred)
        for i in range(len(query_input))
    ]


def output_terms(num, query_input, features, values, gauge, mask, **_) -> Vector:
    """Σ_i |u_i ΔM_i|: the size of what the readout is summed from."""
    rows = matrix(num, query_input, features, values, gauge, mask)
    return weigh(num, _sizes(query_input), [_sizes(row) for row in rows])


def residual_terms(num, query_input, features, values, gauge, mask, head_projection, **_) -> Vector:
    """The same through |W_o|."""
    terms = output_terms(num, query_input, features, values, gauge, mask)
    return weigh(num, terms, [_sizes(row) for row in head_projection])


def anchor_terms(num, query_input, anchor_input, features, values, mask, **_) -> Matrix:
    """(c_j + c_j^anchor)|uᵀa_j||v_j − μ|: the size of what cancels in the residual of a token."""
    zero = [num.real(0.0)] * len(query_input)
    inputs = (query_input, anchor_input)
    here, there = (coefficients(num, u, features, zero, mask) for u in inputs)
    weights = [
        (c + b) * abs(dot(num, query_input, a))
        for c, b, a in zip(here, there, features, strict=True)
    ]
    rows = [_sizes(row) for row in _centred_rows(num, values, mask)]
    return [[w * v for v in row] for w, row in zip(weights, rows, strict=True)]


def curvature(num, query_input, features, reference, **_) -> Matrix:
    """Σ c̃ (Pᵀã)(Pᵀã)ᵀ in the reference-key gauge."""
    gauge = features[reference]
    weights = coefficients(num, query_input, features, gauge, [True] * len(features))
    rows = [sub(a, gauge)[:-1] for a in features]
    return [
        [
            total(num, (c * a[i] * a[k] for c, a in zip(weights, rows, strict=True)))
            for k in range(len(rows[0]))
        ]
        for i in range(len(rows[0]))
    ]


def log_ratios(num, query_input, features, pairs, **_) -> Vector:
    """log p_j − log p_k of the softmax over all keys."""
    probs = softmax(num, [dot(num, query_input, a) for a in features])
    return [num.log(probs[j] / probs[k]) for j, k in pairs]


def project(num, head_writes, output_projection, **_) -> Vector:
    """Σ_h y_h W_{o,h}."""
    result = [num.real(0.0)] * len(output_projection[0][0])
    for write, weight in zip(head_writes, output_projection, strict=True):
        result = add(result, weigh(num, write, weight))
    return result


def contract(num, head_writes, output_projection, gradient, **_) -> Number:
    """⟨g, Σ_h y_h W_{o,h}⟩."""
    return dot(num, gradient, project(num, head_writes, output_projection))


def restoration_benefit(num, error, change, **_) -> Vector:
    """‖e‖² − ‖e + Δ‖²."""
    before = dot(num, error, error)
    return [before - dot(num, add(error, row), add(error, row)) for row in change]


def head_gradient(num, output_projection, gradient, **_) -> Matrix:
    """W_{o,h} gᵀ for every head."""
    return [[dot(num, row, gradient) for row in weight] for weight in output_projection]


def relative_features(num, features, reference, **_) -> Matrix:
    """a_j − a_{j₀} without the bias coordinate."""
    return [sub(a, features[reference])[:-1] for a in features]


def reference_key_gauge(num, features, reference, **_) -> Vector:
    """a_{j₀}."""
    return features[reference]


def mean_key_gauge(num, features, mask, **_) -> Vector:
    """The mean of the attended features."""
    rows = attend(mask, features)
    count = num.real(float(len(rows)))
    return [g / count for g in weigh(num, [num.real(1.0)] * len(rows), rows)]


def key_shift_gauge(num, projection, key_shift, **_) -> Vector:
    """L b."""
    return [dot(num, row, key_shift) for row in projection]


def residual_write(num, residual, head_projection, **case) -> Vector:
    """h + yW_o, with y the softmax readout itself."""
    return add(residual, weigh(num, output(num, **case), head_projection))


def augment(num, query_input, **_) -> Vector:
    """(x, 1)."""
    return [*query_input, num.real(1.0)]


def generator(num, frequencies, layout, vector, **_) -> Matrix:
    """A, column by column from the tangent at a unit shift."""
    width = len(vector)
    everything = [True] * len(frequencies)
    columns = []
    for j in range(width):
        unit = [num.real(1.0 if i == j else 0.0) for i in range(width)]
        columns.append(tangent(num, frequencies, layout, unit, num.real(1.0), everything))
    return [[column[i] for column in columns] for i in range(width)]


def phase_context(num, original, moved, rewritten, reordered, **_) -> list[Vector]:
    """Φ, C, J and T of eq:phasecontent."""
    interaction = add(sub(sub(reordered, moved), rewritten), original)
    return [sub(moved, original), sub(rewritten, original), interaction, sub(reordered, original)]


def signed_projections(num, **cells) -> Vector:
    """⟨X, T⟩/‖T‖² for the three parts."""
    *parts, whole = phase_context(num, **cells)
    return [dot(num, part, whole) / dot(num, whole, whole) for part in parts]


def regression_step(num, inputs, targets, **_) -> Vector:
    """(1/N) Σ x t."""
    return [g / num.real(float(len(inputs))) for g in weigh(num, targets, inputs)]


def aligned_rate(num, predictions, reference, **_) -> Number:
    """max(0, Σfh/Σh²)."""
    rate = dot(num, predictions, reference) / dot(num, reference, reference)
    return num.maximum(num.real(0.0), rate)


def _centred_rows(num, values: Matrix, mask: list[bool]) -> Matrix:
    """v − μ at the attended keys, zero elsewhere."""
    kept, blank = iter(_centred(num, attend(mask, values))), [num.real(0.0)] * len(values[0])
    return [next(kept) if attended else blank for attended in mask]


def _sizes(numbers: Vector) -> Vector:
    return [abs(x) for x in numbers]


def _centred(num, values: Matrix) -> Matrix:
    count = num.real(float(len(values)))
    mean = [g / count for g in weigh(num, [num.real(1.0)] * len(values), values)]
    return [sub(v, mean) for v in values]
