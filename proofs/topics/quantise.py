"""The symmetric quantiser of the precision study (Appendix G)."""

from __future__ import annotations

from fractions import Fraction

import sympy as sp

from proofs.entry import Clause, Entry, Kind
from proofs.prover.statements import Nonnegative, Statement
from proofs.prover.vocabulary import HALF

# The largest entry, the top code 2^{b−1} − 1, the scale a; an entry is a·(code + part).
largest, top, scale = sp.symbols("M L a", positive=True)
entry, code, part = sp.symbols("x k f", real=True)


def _error(sign: int) -> Statement:
    return Statement(
        name=f"U20 error: {'+-'[sign < 0]}(x − a·k) ≤ a/2",
        lhs=sign * (entry - scale * code),
        rhs=scale / 2,
        relation="≤",
        method=Nonnegative(((scale, (HALF - sign * part,)),)),
        hypotheses=((entry, scale * (code + part)),),
        facts=(HALF - sign * part,),
        model=(
            (part, lambda _, generator: Fraction(generator.randint(-5, 5), 10)),
            (entry, scale * (code + part)),
        ),
        scope="every entry; |x/a − round(x/a)| ≤ ½ is what rounding means",
    )


def _range(sign: int) -> Statement:
    return Statement(
        name=f"U20 range: {'+-'[sign < 0]}x/a ≤ 2^(b−1) − 1, multiplied by the largest entry",
        lhs=sign * entry * top,
        rhs=largest * top,
        relation="≤",
        method=Nonnegative(((top, (largest - sign * entry,)),)),
        facts=(largest - sign * entry,),
        model=((largest, lambda env, _: abs(env[entry]) + 1),),
        scope="every entry, with a = M/(2^(b−1) − 1)",
    )


ENTRIES = (
    Entry(
        label="unlabelled:quantiser",
        row="U20",
        title="symmetric quantisation",
        text="a = max|x|/(2^{b−1} − 1), Q(x) = a·round(x/a): |x − Q(x)| ≤ a/2, codes within "
        "±(2^{b−1} − 1), Q(Q(x)) = Q(x)",
        kind=Kind.BOUND,
        assumptions=("two-bits",),
        scope="the algebra of scale and codes; that rounding moves by at most ½ and keeps an "
        "interval with integer ends is the definition of round, and is not proved here",
        functions=("quantise.quantise",),
        clauses=(
            Clause(
                "x/a = k + f with |f| ≤ ½ gives |x − a·k| ≤ a/2, and |x| ≤ M gives |x|·L ≤ M·L",
                statements=(
                    _error(1),
                    _error(-1),
                    _range(1),
                    _range(-1),
                ),
            ),
            Clause(
                "nearest-integer rounding exists and fixes the integers",
                coq=(
                    "Restoration.nearest_exists",
                    "Restoration.round_int",
                ),
            ),
            Clause(
                "|x − Q(x)| ≤ a/2",
                coq=(
                    "Restoration.quantise_error",
                    "Restoration.quantise_bounds",
                ),
            ),
            Clause("codes within ±(2^{b−1} − 1)", coq=("Restoration.code_range",)),
            Clause(
                "Q(Q(x)) = Q(x)",
                coq=(
                    "Restoration.scale_quantise",
                    "Restoration.quantise_idempotent",
                ),
            ),
        ),
    ),
)
