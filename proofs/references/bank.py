"""References for one query over a bank of keys, from the definition: two softmaxes, subtracted.

Each function forms the edited and the unedited readout as eq:attention defines them; a derivative is a
coefficient of the power series of that readout. φ₁ does not occur. Linear and quadratic responses, the
weights of the remainder and the Jacobian of a deletion are what the paper defines them to be, formulas
in p, and are written so. Keys outside the attended set are left out.
"""

from proofs.references.series import SeriesNumbers, variables
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


class EditedReadout:
    """The unedited and the edited readout of one case, over the attended keys."""

    def __init__(self, num, mask, scores, values, score_delta=None, value_delta=None) -> None:
        self.num, self.mask = num, mask
        self.scores, self.values = attend(mask, scores), attend(mask, values)
        self.probs = self.edited_probs = softmax(num, self.scores)
        self.edited_values = self.values
        if score_delta is not None:
            self.score_delta = attend(mask, score_delta)
            self.edited_probs = softmax(num, add(self.scores, self.score_delta))
        if value_delta is not None:
            self.value_delta = attend(mask, value_delta)
            edits = zip(self.values, self.value_delta, strict=True)
            self.edited_values = [add(v, e) for v, e in edits]
        self.output = weigh(num, self.probs, self.values)

    @property
    def change(self) -> Vector:
        """p' − p."""
        return sub(self.edited_probs, self.probs)

    @property
    def centred(self) -> Matrix:
        """v − y."""
        return [sub(v, self.output) for v in self.values]

    def response(self) -> Vector:
        """y' − y."""
        return sub(weigh(self.num, self.edited_probs, self.edited_values), self.output)

    def key_response(self) -> Vector:
        """y(p', v) − y(p, v)."""
        return sub(weigh(self.num, self.edited_probs, self.values), self.output)

    def value_response(self) -> Vector:
        """y(p, v+ε) − y(p, v)."""
        return sub(weigh(self.num, self.probs, self.edited_values), self.output)

    def interaction(self) -> Vector:
        """y(p', v+ε) − y(p', v) − y(p, v+ε) + y(p, v)."""
        return sub(sub(self.response(), self.key_response()), self.value_response())

    def quadratic(self) -> Vector:
        """Σ p (d − E d) ε."""
        mean = dot(self.num, self.probs, self.score_delta)
        weights = [p * (d - mean) for p, d in zip(self.probs, self.score_delta, strict=True)]
        return weigh(self.num, weights, self.value_delta)

    def linear(self) -> Vector:
        """Σ p d (v − y)."""
        weights = [p * d for p, d in zip(self.probs, self.score_delta, strict=True)]
        return weigh(self.num, weights, self.centred)

    def remainder(self) -> Vector:
        """Exact key response minus its first order."""
        return sub(self.key_response(), self.linear())


def output(num, mask, scores, values, **_) -> Vector:
    """y = Σ p v (eq:attention)."""
    return EditedReadout(num, mask, scores, values).output


def log_ratio(num, mask, scores, values, score_delta, **_) -> Vector:
    """log p' − log p."""
    readout = EditedReadout(num, mask, scores, values, score_delta)
    ratios = [num.log(q / p) for p, q in zip(readout.probs, readout.edited_probs, strict=True)]
    return scatter(num, mask, ratios)


def log_normaliser(num, mask, scores, values, score_delta, **_) -> Number:
    """log(Σ e^{s+d}/Σ e^s)."""
    before = total(num, (num.exp(s) for s in attend(mask, scores)))
    edited = add(attend(mask, scores), attend(mask, score_delta))
    return num.log(total(num, (num.exp(s) for s in edited)) / before)


def probability_change(num, mask, scores, values, score_delta, **_) -> Vector:
    """p' − p."""
    return scatter(num, mask, EditedReadout(num, mask, scores, values, score_delta).change)


def finite_response(num, mask, scores, values, score_delta, value_delta, **_) -> Vector:
    """y' − y."""
    return EditedReadout(num, mask, scores, values, score_delta, value_delta).response()


def key_response(num, mask, scores, values, score_delta, **_) -> Vector:
    """y(p', v) − y(p, v)."""
    return EditedReadout(num, mask, scores, values, score_delta).key_response()


def value_response(num, mask, scores, values, value_delta, **_) -> Vector:
    """y(p, v+ε) − y(p, v)."""
    return EditedReadout(num, mask, scores, values, None, value_delta).value_response()


def interaction(num, mask, scores, values, score_delta, value_delta, **_) -> Vector:
    """y(p', v+ε) − y(p', v) − y(p, v+ε) + y(p, v)."""
    return EditedReadout(num, mask, scores, values, score_delta, value_delta).interaction()


def quadratic_interaction(num, mask, scores, values, score_delta, value_delta, **_) -> Vector:
    """Σ p (d − E d) ε."""
    return EditedReadout(num, mask, scores, values, score_delta, value_delta).quadratic()


def linear_response(num, mask, scores, values, score_delta, **_) -> Vector:
    """Σ p d (v − y)."""
    return EditedReadout(num, mask, scores, values, score_delta).linear()


def softmax_remainder(num, mask, scores, values, score_delta, **_) -> Vector:
    """Exact key response minus its first order."""
    return EditedReadout(num, mask, scores, values, score_delta).remainder()


def remainder_weights(num, mask, scores, values, score_delta, **_) -> Vector:
    """p' − p − p·log(p'/p)."""
    readout = EditedReadout(num, mask, scores, values, score_delta)
    weights = [
        q - p - p * num.log(q / p) for p, q in zip(readout.probs, readout.edited_probs, strict=True)
    ]
    return scatter(num, mask, weights)


def decompose(num, mask, scores, values, score_delta, value_delta, **_) -> list[Vector]:
    """All parts of the joint response, each from its definition."""
    readout = EditedReadout(num, mask, scores, values, score_delta, value_delta)
    parts = [
        readout.response(),
        readout.key_response(),
        readout.value_response(),
        readout.interaction(),
    ]
    return [*parts, readout.quadratic(), readout.linear(), readout.remainder()]


def divergence(num, mask, scores, values, score_delta, **_) -> Number:
    """KL(p‖p') = Σ p log(p/p')."""
    readout = EditedReadout(num, mask, scores, values, score_delta)
    return total(
        num, (p * num.log(p / q) for p, q in zip(readout.probs, readout.edited_probs, strict=True))
    )


def total_variation(num, mask, scores, values, score_delta, **_) -> Number:
    """½ Σ |p' − p|."""
    change = EditedReadout(num, mask, scores, values, score_delta).change
    return total(num, (abs(x) for x in change)) / num.real(2.0)


def positional_jacobian(num, mask, scores, values, linear_delta, **_) -> Vector:
    """Σ p d_lin (v − y)."""
    return linear_response(num, mask, scores, values, linear_delta)


def band_interaction(num, mask, scores, values, score_delta, second_delta, **_) -> Vector:
    """F(s+b+c) − F(s+b) − F(s+c) + F(s)."""
    vectors = attend(mask, values)

    def readout(*increments: Vector) -> Vector:
        edited = attend(mask, scores)
        for increment in increments:
            edited = add(edited, attend(mask, increment))
        return weigh(num, softmax(num, edited), vectors)

    joint = sub(readout(score_delta, second_delta), readout(score_delta))
    return sub(joint, sub(readout(second_delta), readout()))


def mixed_second_derivative(num, mask, scores, values, score_delta, second_delta, **_) -> Vector:
    """∂²F/∂α∂β of F(s + αb + βc) at 0, a coefficient of the power series of the readout."""
    first, second = variables([num.real(0.0)] * 2, [1, 1])
    edits = zip(*(attend(mask, x) for x in (scores, score_delta, second_delta)), strict=True)
    probs = softmax(SeriesNumbers(num), [s + first * b + second * c for s, b, c in edits])
    return [y.coefficient(1, 1) for y in weigh(num, probs, attend(mask, values))]


def deletion_response(num, mask, scores, values, removed, **_) -> list[Vector]:
    """Readout over the remaining keys minus the readout over all, for each group."""
    before = EditedReadout(num, mask, scores, values).output
    rows = []
    for group in removed:
        remaining = [kept and not in_group for kept, in_group in zip(mask, group, strict=True)]
        rows.append(sub(EditedReadout(num, remaining, scores, values).output, before))
    return rows


def deletion_jacobian(num, mask, scores, values, removed, **_) -> list[Vector]:
    """αy − w_G for each group."""
    readout = EditedReadout(num, mask, scores, values)
    rows = []
    for group in removed:
        inside = [bool(in_group) for kept, in_group in zip(mask, group, strict=True) if kept]
        probs = [
            p if in_group else num.real(0.0)
            for p, in_group in zip(readout.probs, inside, strict=True)
        ]
        mass, weighed = total(num, probs), weigh(num, probs, readout.values)
        rows.append([mass * y - w for y, w in zip(readout.output, weighed, strict=True)])
    return rows


def sparse_edits(num, mask, scores, values, groups, group_scores, group_values) -> list[dict]:
    """Each candidate's sparse increments, spread over the whole readout."""
    edits = []
    for members, deltas, vectors in zip(groups, group_scores, group_values, strict=True):
        score_delta = [num.real(0.0)] * len(scores)
        value_delta = [[num.real(0.0)] * len(values[0])] * len(scores)
        for member, delta, vector in zip(members, deltas, vectors, strict=True):
            score_delta[member], value_delta[member] = delta, vector
        bank = {"mask": mask, "scores": scores, "values": values}
        edits.append(bank | {"score_delta": score_delta, "value_delta": value_delta})
    return edits


def sparse_response(num, mask, scores, values, groups, group_scores, group_values, **_):
    """y' − y of every candidate over the whole readout."""
    edits = sparse_edits(num, mask, scores, values, groups, group_scores, group_values)
    return [finite_response(num, **edit) for edit in edits]


def sparse_divergence(num, mask, scores, values, groups, group_scores, group_values, **_):
    """KL(p‖p') of every candidate over the whole readout."""
    edits = sparse_edits(num, mask, scores, values, groups, group_scores, group_values)
    return [divergence(num, **edit) for edit in edits]


def sparse_total_variation(num, mask, scores, values, groups, group_scores, group_values, **_):
    """TV(p, p') of every candidate over the whole readout."""
    edits = sparse_edits(num, mask, scores, values, groups, group_scores, group_values)
    return [total_variation(num, **edit) for edit in edits]


def restoration_response(num, scores, values, score_delta, value_delta, **_) -> list[Vector]:
    """y' − y for editing each single key, the others held, with y = Σ e^s v/Σ e^s."""

    def readout(weights: Vector, vectors: Matrix) -> Vector:
        mass = total(num, weights)
        return [x / mass for x in weigh(num, weights, vectors)]

    weights, rows = [num.exp(s) for s in scores], []
    before = readout(weights, values)
    for key, (delta, vector) in enumerate(zip(score_delta, value_delta, strict=True)):
        edited, moved = list(weights), list(values)
        edited[key] = num.exp(scores[key] + delta)
        moved[key] = add(values[key], vector)
        rows.append(sub(readout(edited, moved), before))
    return rows


def exact_score(num, mask, scores, values, score_delta, value_delta, gradient, **_) -> Number:
    """⟨g, y' − y⟩: the exact local score that a certificate speaks of."""
    response = finite_response(num, mask, scores, values, score_delta, value_delta)
    return dot(num, gradient, response)
