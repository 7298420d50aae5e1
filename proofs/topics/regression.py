"""The regression reference of Appendix I: one gradient step and its fitted rate."""

from __future__ import annotations

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.statements import Nonnegative, Statement
from proofs.prover.syntax import Index, S
from proofs.prover.vocabulary import ONE, ZERO

# Two generic input coordinates beside each other; targets τ.
x1, x2, target = Index("x1"), Index("x2"), Index("tau")
w1, w2, q1, q2, g1, g2 = sp.symbols("w1 w2 q1 q2 g1 g2", real=True)
N = sp.Symbol("N", positive=True)
rate = sp.Symbol("eta", nonnegative=True)
loss = S((x1 * w1 + x2 * w2 - target) ** 2) / (2 * N)
gradient = ((S(x1 * target), N * g1), (S(x2 * target), N * g2))
MODEL = ((N, S(ONE)), (g1, S(x1 * target) / S(ONE)), (g2, S(x2 * target) / S(ONE)))

# Fitting η: f the model's predictions, h the reference direction xᵀg.
f, h, lean = Index("f"), Index("h"), Index("r", positive=True)
best = S(f * h) / S(h**2)

ENTRIES = (
    Entry(
        label="eq:independentgd",
        title="one step of regression",
        text="L(w) = Σ (xᵀw − τ)²/(2N), g = Σ x·τ/N; w₁ = 0 − η∇L(0) = η·g",
        kind=Kind.EQUALITY,
        scope="every N, every input width (one generic coordinate beside another)",
        functions=("regression.regression_step",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:independentgd: −η·∂L/∂w₁ at w = 0 is η·g₁",
                        lhs=-rate * sp.Subs(sp.Derivative(loss, w1), (w1, w2), (0, 0)),
                        rhs=rate * g1,
                        hypotheses=gradient[:1],
                        nonzero=(N,),
                        model=MODEL,
                        scope="every N",
                    ),
                ),
                coq=("Regression.descent_step",),
            ),
        ),
    ),
    Entry(
        label="eq:alignedeta",
        title="the fitted rate",
        text="η* = max(0, Σfh/Σh²) minimises Σ (f − ηh)² over η ≥ 0",
        kind=Kind.EQUIVALENCE,
        assumptions=("nonzero-total",),
        scope="every number of predictions; Σh² > 0, since otherwise every η is a minimum",
        functions=("regression.aligned_rate",),
        clauses=(
            Clause(
                "Σ (f − ηh)² is least at Σfh/Σh², by the square Σh²·(η − Σfh/Σh²)², and with Σfh ≤ 0 at 0",
                statements=(
                    Statement(
                        name="eq:alignedeta interior: the loss is least at Σfh/Σh², by a square",
                        lhs=S((f - rate * h) ** 2) - S((f - best * h) ** 2),
                        rhs=S(h**2) * (rate - best) ** 2,
                        nonzero=(S(h**2),),
                        scope="every number of predictions",
                    ),
                    Statement(
                        name="eq:alignedeta boundary: with Σfh ≤ 0 no η ≥ 0 beats 0",
                        lhs=S(f**2),
                        rhs=S((f - rate * h) ** 2),
                        relation="≤",
                        method=Nonnegative(((rate**2, (h**2,)), (2 * rate, (-S(f * h),)))),
                        facts=(-S(f * h),),
                        model=((f, -h * lean),),
                        scope="every number of predictions",
                    ),
                ),
            ),
            Clause(
                "η* = max(0, Σfh/Σh²) is the only minimiser over η ≥ 0",
                coq=(
                    "Regression.aligned_eta",
                    "Regression.aligned_unique",
                ),
            ),
        ),
    ),
    Entry(
        label="unlabelled:regression-jacobian",
        row="U23",
        title="prediction, query Jacobian and positive control",
        text="f = η·xᵀg, ∇_x f = η·g; linear attention η·Σ (x·x_j)τ_j/N is the same function",
        kind=Kind.EQUALITY,
        scope="every N, every input width (one generic coordinate beside another)",
        functions=("regression.regression_step",),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="U23 Jacobian: ∂/∂x₁ of η·xᵀg is η·g₁",
                        lhs=sp.Derivative(rate * (q1 * g1 + q2 * g2), q1),
                        rhs=rate * g1,
                        scope="one generic coordinate",
                    ),
                    Statement(
                        name="U23 control: η·Σ (x·x_j)·τ_j/N = η·xᵀg",
                        lhs=rate * S((q1 * x1 + q2 * x2) * target) / N,
                        rhs=rate * (q1 * g1 + q2 * g2),
                        hypotheses=gradient,
                        nonzero=(N,),
                        model=MODEL,
                        scope="every N",
                    ),
                    Statement(
                        name="U23 Jacobian of the control: ∂/∂x₁ is η·g₁ too",
                        lhs=sp.Derivative(rate * S((q1 * x1 + q2 * x2) * target) / N, q1)
                        - rate * g1,
                        rhs=ZERO,
                        hypotheses=gradient[:1],
                        nonzero=(N,),
                        model=MODEL,
                        scope="every N",
                    ),
                ),
                coq=("Regression.query_jacobian",),
            ),
        ),
    ),
)
