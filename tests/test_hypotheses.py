"""No statement assumes more than it needs, what it concludes, or what another statement proves."""

import dataclasses
import functools

import pytest
import sympy as sp

from proofs.catalogue import entries, find
from proofs.prover.links import Link, Transposed
from proofs.prover.statements import Elementary, Matrices, Nonnegative, Statement
from proofs.prover.sums import normalise
from proofs.prover.syntax import Index, Letter, RefusalError, S
from proofs.prover.vocabulary import MASS, ONE, ZERO, D, E, p
from proofs.topics.phi import INTEGRAL, phi1, t

STATEMENTS = {s.name: s for entry in entries() for s in entry.statements}


def proves(statement: Statement) -> bool:
    try:
        return statement.prove().ok
    except ValueError:
        return False


def without(statement: Statement, hypothesis) -> Statement:
    links = tuple(
        link
        for link in statement.links
        if hypothesis not in (link.hypothesis, getattr(link, "source", None))
    )
    kept = tuple(h for h in statement.hypotheses if h != hypothesis)
    return dataclasses.replace(statement, hypotheses=kept, links=links)


def without_fact(statement: Statement, fact) -> Statement:
    links = tuple(link for link in statement.links if getattr(link, "fact", None) != fact)
    kept = tuple(f for f in statement.facts if f != fact)
    return dataclasses.replace(statement, facts=kept, links=links)


def numerator(difference: sp.Expr) -> sp.Expr:
    if difference.has(sp.exp, sp.sin, sp.cos, sp.log, sp.Abs, sp.Subs):
        return sp.expand(difference.doit())
    return sp.expand(sp.fraction(sp.together(normalise(difference)))[0])


def is_rearranged(statement: Statement, hypothesis) -> bool:
    """Whether the conclusion is the hypothesis times what holds no further quantity of the hypothesis."""
    pivot, value = hypothesis
    if isinstance(statement.method, Matrices) or statement.lhs.has(sp.Integral, sp.Sum):
        goal, condition = sp.expand(statement.lhs - statement.rhs), sp.expand(pivot - value)
        return condition != 0 and (
            sp.expand(goal - condition) == 0 or sp.expand(goal + condition) == 0
        )
    goal, condition = numerator(statement.lhs - statement.rhs), numerator(pivot - value)
    quotient = sp.cancel(goal / condition)
    return bool(quotient != 0 and quotient.is_polynomial() and not quotient.has(S, Index))


@pytest.mark.parametrize("name", STATEMENTS)
def test_every_hypothesis_fact_and_denominator_is_needed(name):
    statement = STATEMENTS[name]
    spare = [str(h) for h in statement.hypotheses if proves(without(statement, h))]
    spare += [str(f) for f in statement.facts if proves(without_fact(statement, f))]
    spare += [
        f"{f} ≠ 0"
        for f in statement.nonzero
        if proves(
            dataclasses.replace(statement, nonzero=tuple(g for g in statement.nonzero if g != f))
        )
    ]
    assert spare == []


@pytest.mark.parametrize("name", [s.name for s in STATEMENTS.values() if s.hypotheses])
def test_no_hypothesis_is_the_conclusion(name):
    statement = STATEMENTS[name]
    assert [str(h) for h in statement.hypotheses if is_rearranged(statement, h)] == []


@pytest.mark.parametrize("name", [s.name for s in STATEMENTS.values() if s.facts])
def test_no_fact_is_the_conclusion(name):
    statement = STATEMENTS[name]
    gap = sp.expand(statement.rhs - statement.lhs)
    assert [f for f in statement.facts if sp.expand(gap - f) == 0] == []


@functools.cache
def conclusions() -> dict[sp.Expr, str]:
    return {
        sign * sp.expand(s.lhs - s.rhs): s.name
        for s in STATEMENTS.values()
        if s.relation == "="
        for sign in (1, -1)
    }


@pytest.mark.parametrize("name", [s.name for s in STATEMENTS.values() if s.hypotheses])
def test_no_hypothesis_is_a_proved_statement_typed_again(name):
    statement = STATEMENTS[name]
    linked = [link.hypothesis for link in statement.links]
    again = {
        str(h): conclusions()[sp.expand(h[0] - h[1])]
        for h in statement.hypotheses
        if h not in linked and sp.expand(h[0] - h[1]) in conclusions()
    }
    assert again == {}


def test_response_needs_that_the_weights_sum_to_one():
    (statement,) = find("main:response").statements
    assert MASS in statement.hypotheses
    assert not proves(without(statement, MASS))


def test_rearranged_conclusion_is_recognised():
    x, y, k = sp.symbols("x y k", real=True)
    statement = Statement(
        name="", lhs=x / k, rhs=y, scope="", hypotheses=((x, y * k),), nonzero=(k,)
    )
    assert proves(statement)
    assert is_rearranged(statement, statement.hypotheses[0])


def linked(**fields) -> Statement:
    hypothesis = (E, D * (1 + Index("t") * Index("phi")))
    meaning = {E: D * sp.exp(t), Index("t"): t, Index("phi"): phi1}
    settings = {"hypothesis": hypothesis, "meaning": meaning, "factor": -D, **fields}
    return Statement(
        name="change",
        lhs=p * E / D - p,
        rhs=p * Index("t") * Index("phi"),
        scope="",
        hypotheses=(hypothesis,),
        links=(Link(INTEGRAL, **settings),),
        nonzero=(D,),
    )


def test_link_that_says_what_the_lemma_says_is_accepted():
    assert proves(linked())


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"factor": D}, "does not say"),
        ({"meaning": {}}, "does not say"),
        ({"hypothesis": (E, D)}, "is not a hypothesis of"),
    ],
)
def test_link_that_says_something_else_is_refused(fields, message):
    with pytest.raises(RefusalError, match=message):
        linked(**fields).prove()


c, d, z = sp.symbols("c d z", real=True)
GIVEN = Statement(name="given", lhs=z, rhs=ONE, scope="", hypotheses=((z, ONE),))
SIGN = Statement(
    name="sign",
    lhs=ZERO,
    rhs=z,
    scope="",
    relation="≤",
    method=Nonnegative(((ONE, (z,)),)),
    facts=(z,),
)
OF_KEYS = Statement(name="of keys", lhs=p * E / E, rhs=p, scope="", nonzero=(E,))


@pytest.mark.parametrize(
    ("link", "message"),
    [
        (Link(GIVEN, hypothesis=(c, ONE), meaning={c: z}), "assumes what it says"),
        (Link(OF_KEYS, hypothesis=(c, ONE), meaning={c: ONE}, factor=ZERO), "factor is zero"),
        (Link(OF_KEYS, hypothesis=(c, ONE), meaning={c: p}), "one number and cannot mean p"),
    ],
)
def test_link_that_launders_an_assumption_is_refused(link, message):
    claim = Statement(
        name="claim", lhs=c * d, rhs=d, scope="", hypotheses=((c, ONE),), links=(link,)
    )
    with pytest.raises(RefusalError, match=message):
        claim.prove()


w, angle = sp.symbols("w angle", real=True)
above, inside = sp.Symbol("c", positive=True), Index("1_S", idempotent=True)
gap, at = Index("gap"), Index("at")


def circle(of) -> Statement:
    """sin² = 1 − cos² of an angle."""
    sides = sp.sin(of) ** 2, 1 - sp.cos(of) ** 2
    return Statement(name="circle", lhs=sides[0], rhs=sides[1], scope="", method=Elementary())


CIRCLE, ROOT = circle(angle), dataclasses.replace(GIVEN, name="root", lhs=w * (z - 1), rhs=ZERO)
STILL = dataclasses.replace(GIVEN, name="still", lhs=w, rhs=w * z)
TURNED = (c, 1 - d**2)
TURNING = {c: sp.sin(angle) ** 2, d: sp.cos(angle)}


def assuming(link: Link, lhs, rhs, *hypotheses, **fields) -> Statement:
    assert link.hypothesis is not None
    pairs = (link.hypothesis, *hypotheses)
    return Statement(
        name="claim", lhs=lhs, rhs=rhs, scope="", hypotheses=pairs, links=(link,), **fields
    )


# What each would prove: a number that may be negative is not, d² = d, w = 0 and the like.
LAUNDERED = {
    "a sign": (
        assuming(
            Link(CIRCLE, hypothesis=(above, 1 - d**2), meaning={**TURNING, above: TURNING[c]}),
            ZERO,
            1 - d**2,
            relation="≤",
            method=Nonnegative(((ONE, (above,)),)),
        ),
        "is of the sort of c",
    ),
    "an indicator": (
        assuming(
            Link(
                circle(at),
                hypothesis=(gap, inside),
                meaning={gap: sp.sin(at) ** 2, inside: 1 - sp.cos(at) ** 2},
            ),
            S(gap**2),
            S(gap),
        ),
        "is of the sort of 1_S",
    ),
    "a division by zero": (
        assuming(Link(ROOT, hypothesis=(c, ZERO), meaning={c: w}, factor=1 / (z - 1)), c, ZERO),
        "may not divide",
    ),
    "a premise that is not stated": (
        assuming(Link(ROOT, hypothesis=(c, ZERO), meaning={c: w * (z - 1)}), c, ZERO),
        "root needs z = 1",
    ),
    "a premise about another symbol": (
        assuming(
            Link(STILL, hypothesis=(c, w * (z - 1)), meaning={c: w, z: z + 1}), c, ZERO, (z, ONE)
        ),
        "still needs z = 1",
    ),
    "a moment": (
        assuming(
            Link(CIRCLE, hypothesis=(S(p), 1 - d**2), meaning={**TURNING, S(p): TURNING[c]}),
            S(p),
            d,
        ),
        "only a symbol has a meaning",
    ),
    "what the symbols mean": (
        assuming(Link(CIRCLE, hypothesis=(c, d), meaning={c: w, d: w}), c, d),
        "holds by what its symbols mean",
    ),
    "what moves": (
        assuming(
            Link(CIRCLE, hypothesis=TURNED, meaning=TURNING), sp.Derivative(angle * c, angle), c
        ),
        "which is not fixed",
    ),
}


@pytest.mark.parametrize("name", LAUNDERED)
def test_link_launders_nothing(name):
    claim, message = LAUNDERED[name]
    with pytest.raises(RefusalError, match=message):
        claim.prove()


def test_link_of_the_same_lemma_that_launders_nothing_is_accepted():
    assert proves(assuming(Link(CIRCLE, hypothesis=TURNED, meaning=TURNING), c + d**2, ONE))


def test_lemma_that_assumes_a_sign_is_refused():
    claim = dataclasses.replace(SIGN, name="claim", rhs=z * c**2, links=(Link(SIGN, fact=z),))
    witness = Nonnegative(((ONE, (z, c**2)),))
    with pytest.raises(RefusalError, match="which a lemma may not"):
        dataclasses.replace(claim, method=witness).prove()


def test_symbol_of_two_meanings_is_refused():
    links = (Link(GIVEN, meaning={c: z}), Link(GIVEN, meaning={c: d}))
    with pytest.raises(RefusalError, match="in one link"):
        Statement(name="claim", lhs=c, rhs=c, scope="", links=links).prove()


def test_matrix_of_two_transposes_is_refused():
    statement = find("main:curvature").statements[0]
    (link,) = statement.links
    assert isinstance(link, Transposed)
    pairs = (*link.pairs, (link.pairs[0][0], Letter("other", "m", "d")))
    with pytest.raises(RefusalError, match="two transposes"):
        dataclasses.replace(statement, links=(dataclasses.replace(link, pairs=pairs),)).prove()


def test_matrix_is_not_its_own_transpose_by_saying_so():
    square, column, row = (
        Letter(*x) for x in (("A", "m", "m"), ("n", "m", "1"), ("n^T", "1", "m"))
    )
    source, turned = (square * column, ZERO), (row * square, ZERO)
    link = Transposed(turned, source, ((square, square), (column, row)))
    claim = Statement(
        name="claim",
        lhs=row * square,
        rhs=ZERO,
        scope="",
        method=Matrices(),
        hypotheses=(source, turned),
        links=(link,),
    )
    with pytest.raises(RefusalError, match="cannot be transposes"):
        claim.prove()


def test_every_lemma_is_a_statement_of_the_catalogue():
    lemmas = [x.lemma for s in STATEMENTS.values() for x in s.links if isinstance(x, Link)]
    assert lemmas
    assert [lemma.name for lemma in lemmas if STATEMENTS.get(lemma.name) != lemma] == []


def test_link_to_a_false_lemma_is_refused():
    false = dataclasses.replace(INTEGRAL, rhs=INTEGRAL.rhs + 1)
    statement = linked()
    hypothesis = (E, D * (2 + Index("t") * Index("phi")))
    link = dataclasses.replace(statement.links[0], lemma=false, hypothesis=hypothesis)
    claim = dataclasses.replace(statement, hypotheses=(hypothesis,), links=(link,))
    with pytest.raises(RefusalError, match=r"does not say|is not proved"):
        claim.prove()


def test_transpose_of_another_hypothesis_is_refused():
    statement = find("main:curvature").statements[0]
    (link,) = statement.links
    assert isinstance(link, Transposed)
    wrong = dataclasses.replace(link, source=(link.source[0], ZERO))
    with pytest.raises(RefusalError, match="is not a hypothesis"):
        dataclasses.replace(statement, links=(wrong,)).prove()
