"""Gauge-invariant query control: requested log ratios and the smallest edit (§4, App. C)."""

from __future__ import annotations

import random

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.exact import Matrix
from proofs.prover.links import Transposed
from proofs.prover.rational import Environment, random_matrix
from proofs.prover.statements import MATRICES, Elementary, Matrices, Statement
from proofs.prover.syntax import Index, Letter, S
from proofs.prover.vocabulary import HALF, ONE, TWO, ZERO, p, transposed, weights

# A consistent system H·h = b with any pseudo-inverse data: Penrose's four conditions.
H, Hp = Letter("H", "r", "m"), Letter("H+", "m", "r")
HT, HpT = Letter("H^T", "m", "r"), Letter("H+^T", "r", "m")
b, b_row, z = Letter("b", "r", "1"), Letter("b^T", "1", "r"), Letter("z", "m", "1")
n, n_row, edit = Letter("n", "m", "1"), Letter("n^T", "1", "m"), Letter("h", "m", "1")


def _factors(env: Environment) -> tuple[Matrix, Matrix]:
    generator = random.Random(f"{env.size}|full rank")
    rank, rows, cols = (env.dimension(name) for name in ("d", "r", "m"))
    return random_matrix(generator, (rows, rank)), random_matrix(generator, (rank, cols))


def _deficient(env: Environment, _: random.Random) -> Matrix:
    left, right = _factors(env)
    return left * right


def _pseudo_inverse(env: Environment, _: random.Random) -> Matrix:
    # For H = F·G of full rank, H⁺ = Gᵀ(GGᵀ)⁻¹(FᵀF)⁻¹Fᵀ, which is rational.
    left, right = _factors(env)
    inner = (right * right.transpose).inverse() * (left.transpose * left).inverse()
    return right.transpose * inner * left.transpose


PAIRS = ((H, HT), (Hp, HpT), (b, b_row), (n, n_row))
KERNEL, KERNEL_ROW = (H * n, ZERO), (n_row * HT, ZERO)

CONTROL_MODEL = (
    (H, _deficient),
    (Hp, _pseudo_inverse),
    (HT, transposed(H)),
    (HpT, transposed(Hp)),
    (b, H * z),
    (b_row, transposed(b)),
    (n, (1 - Hp * H) * z),
    (n_row, transposed(n)),
    (edit, Hp * b + n),
)

ROW_SPACE = Statement(
    name="main:querycontrol row space: H⁺ = Hᵀ·H⁺ᵀ·H⁺",
    lhs=HT * HpT * Hp,
    rhs=Hp,
    method=Matrices(),
    hypotheses=((HT * HpT, Hp * H), (Hp * H * Hp, Hp)),
    model=CONTROL_MODEL,
    scope=MATRICES,
)

s_j, s_k = sp.symbols("s_j s_k", real=True)
Z = sp.Symbol("Z", positive=True)
u_row, a_j, a_k, g = (
    Letter("u^T", "1", "m+1"),
    Letter("a_j", "m+1", "1"),
    Letter("a_k", "m+1", "1"),
    Letter("g", "m+1", "1"),
)
h_row, PT = Letter("h^T", "1", "m"), Letter("P^T", "m", "m+1")
bar_j, bar_k = Letter("abar_j", "m", "1"), Letter("abar_k", "m", "1")
q, constant = Index("q", positive=True), sp.Symbol("C", real=True)
odds = sp.Symbol("k", positive=True)

ENTRIES = (
    Entry(
        label="eq:querylogodds",
        title="log ratios are affine in the query edit",
        text="log p_j/p_k = uᵀ(a_j − a_k) + (ā_j − ā_k)ᵀh",
        kind=Kind.EQUALITY,
        assumptions=("fixed-bank", "affine-scores"),
        scope=f"every pair of keys; {MATRICES}",
        functions=("control.log_ratios", "control.control_query"),
        clauses=(
            Clause(
                "",
                statements=(
                    Statement(
                        name="eq:querylogodds normaliser: log(e^{s_j}/Z) − log(e^{s_k}/Z) = s_j − s_k",
                        lhs=sp.log(sp.exp(s_j) / Z) - sp.log(sp.exp(s_k) / Z),
                        rhs=s_j - s_k,
                        method=Elementary(),
                        nonzero=(Z,),
                        scope="all real scores",
                    ),
                    Statement(
                        name="eq:querylogodds affine: (u + Ph)ᵀ(a_j − a_k) in the edit h",
                        lhs=(u_row + h_row * PT) * (a_j - a_k),
                        rhs=u_row * (a_j - a_k) + h_row * (bar_j - bar_k),
                        method=Matrices(),
                        hypotheses=((PT * a_j, bar_j), (PT * a_k, bar_k)),
                        model=((bar_j, PT * a_j), (bar_k, PT * a_k)),
                        scope=MATRICES,
                    ),
                ),
                coq=("Control.log_odds",),
            ),
        ),
    ),
    Entry(
        label="main:querycontrol",
        title="minimum-norm query control",
        text="h* = H⁺b, H·H⁺b = b, the unique solution of least norm",
        kind=Kind.EQUIVALENCE,
        assumptions=("fixed-bank", "affine-scores", "feasible"),
        scope=MATRICES + ", any rank, from Penrose's conditions; uniqueness is Coq's",
        functions=("control.control_query",),
        clauses=(
            Clause(
                "H·H⁺b = b when b = H·z",
                statements=(
                    Statement(
                        name="main:querycontrol feasible: H·H⁺·b = b when b = H·z",
                        lhs=H * Hp * b,
                        rhs=b,
                        method=Matrices(),
                        hypotheses=((b, H * z), (H * Hp * H, H)),
                        model=CONTROL_MODEL,
                        scope=MATRICES,
                    ),
                ),
                coq=("PseudoInverse.feasible",),
            ),
            Clause(
                "H⁺b lies in the row space of H",
                statements=(ROW_SPACE,),
                coq=("PseudoInverse.row_space",),
            ),
            Clause(
                "H⁺ exists and is unique",
                coq=(
                    "PseudoInverse.pinv_exists",
                    "PseudoInverse.pinv_unique",
                ),
            ),
            Clause(
                "h meets the requested log ratios exactly when H·h = b", coq=("Control.request",)
            ),
            Clause(
                "h* = H⁺b is the only solution of least norm",
                coq=(
                    "PseudoInverse.min_norm",
                    "Control.query_control",
                ),
            ),
        ),
    ),
    Entry(
        label="unlabelled:all-solutions",
        row="U10",
        title="every solution, and its norm",
        text="h = H⁺b + n, n ∈ ker H; ‖h‖² = ‖H⁺b‖² + ‖n‖²; feasible ⇔ (I − HH⁺)b = 0",
        kind=Kind.EQUIVALENCE,
        assumptions=("feasible",),
        scope=MATRICES + ", any rank; each implication from its premise; the equivalences are "
        "Coq's",
        functions=("control.control_query", "control.preserving_directions"),
        clauses=(
            Clause(
                "H⁺b + n solves H·h = b for n ∈ ker H, and every solution differs from H⁺b by ker H",
                statements=(
                    Statement(
                        name="U10 solution: H·(H⁺b + n) = b",
                        lhs=H * (Hp * b + n),
                        rhs=b,
                        method=Matrices(),
                        hypotheses=((b, H * z), (H * Hp * H, H), (H * n, ZERO)),
                        model=CONTROL_MODEL,
                        scope=MATRICES,
                    ),
                    Statement(
                        name="U10 converse: H·(h − H⁺b) = 0 for any solution h",
                        lhs=H * (edit - Hp * b),
                        rhs=ZERO,
                        method=Matrices(),
                        hypotheses=((b, H * edit), (H * Hp * H, H)),
                        model=CONTROL_MODEL,
                        scope=MATRICES,
                    ),
                ),
                coq=("PseudoInverse.solutions",),
            ),
            Clause(
                "‖H⁺b + n‖² = ‖H⁺b‖² + ‖n‖² for n ∈ ker H, with H⁺b in its row-space form",
                statements=(
                    ROW_SPACE,
                    Statement(
                        name="U10 norm: ‖Hᵀ(H⁺ᵀH⁺b) + n‖² = ‖Hᵀ(H⁺ᵀH⁺b)‖² + ‖n‖²",
                        lhs=(b_row * HpT * Hp * H + n_row) * (HT * HpT * Hp * b + n),
                        rhs=b_row * HpT * Hp * H * HT * HpT * Hp * b + n_row * n,
                        method=Matrices(),
                        hypotheses=(KERNEL, KERNEL_ROW),
                        links=(Transposed(KERNEL_ROW, KERNEL, PAIRS),),
                        model=CONTROL_MODEL,
                        scope=MATRICES + "; H⁺b in its row-space form",
                    ),
                ),
                coq=(
                    "PseudoInverse.pinv_orthogonal",
                    "PseudoInverse.pythagoras",
                ),
            ),
            Clause(
                "a feasible b has (I − HH⁺)b = 0",
                statements=(
                    Statement(
                        name="U10 feasible: (I − H·H⁺)·H·z = 0",
                        lhs=(1 - H * Hp) * H * z,
                        rhs=ZERO,
                        method=Matrices(),
                        hypotheses=((H * Hp * H, H),),
                        model=CONTROL_MODEL,
                        scope=MATRICES,
                    ),
                ),
            ),
            Clause(
                "H·h = b is feasible exactly when (I − HH⁺)b = 0",
                coq=(
                    "PseudoInverse.feasible",
                    "PseudoInverse.feasible_residual",
                ),
            ),
        ),
    ),
    Entry(
        label="unlabelled:pair-gauge",
        row="U11",
        title="feature differences are gauge invariant",
        text="H and b do not change under a ↦ a − g; with all pairs, ker H preserves attention",
        kind=Kind.EQUIVALENCE,
        assumptions=("fixed-bank", "affine-scores"),
        scope=MATRICES + "; the characterisation of the kernel is Coq's",
        functions=("control.control_query", "control.relative_features"),
        clauses=(
            Clause(
                "H and b do not change under a ↦ a − g",
                statements=(
                    Statement(
                        name="U11 rows: (a_j − g) − (a_k − g) = a_j − a_k",
                        lhs=(a_j - g) - (a_k - g),
                        rhs=a_j - a_k,
                        method=Matrices(),
                        scope=MATRICES,
                    ),
                    Statement(
                        name="U11 right side: uᵀ((a_j − g) − (a_k − g)) = uᵀ(a_j − a_k)",
                        lhs=u_row * (a_j - g) - u_row * (a_k - g),
                        rhs=u_row * (a_j - a_k),
                        method=Matrices(),
                        scope=MATRICES,
                    ),
                ),
                coq=("Control.request_gauge",),
            ),
            Clause(
                "with all pairs, ker H is the set of attention-preserving edits",
                coq=("Control.all_pairs",),
            ),
        ),
    ),
    Entry(
        label="unlabelled:output-preservation",
        row="U12",
        title="preserving the output is weaker than preserving attention",
        text="equal values give the same output for any weights: two keys, weights ½ and ⅔",
        kind=Kind.EQUIVALENCE,
        assumptions=("attended",),
        scope="a counterexample: every N for the equal outputs, two keys for the unequal weights",
        functions=("control.preserving_directions",),
        clauses=(
            Clause(
                "equal values give one output for all distributions, and at odds k ≠ 1 the weights differ",
                statements=(
                    Statement(
                        name="U12 output: Σ q·C = Σ p·C for any two distributions p, q",
                        lhs=S(q * constant),
                        rhs=S(p * constant),
                        hypotheses=((S(p), ONE), (S(q), ONE)),
                        model=((p, weights), (q, weights)),
                        scope="every N",
                    ),
                    Statement(
                        name="U12 weights: at odds k the first of two keys moves by (k−1)/(2(k+1))",
                        lhs=odds / (odds + 1) - HALF,
                        rhs=(odds - 1) / (2 * (odds + 1)),
                        nonzero=(odds + 1,),
                        model=((odds, TWO),),
                        scope="two keys, any odds k ≠ 1; k = 2 moves ½ to ⅔",
                    ),
                ),
                coq=("Control.output_weaker",),
            ),
        ),
    ),
)
