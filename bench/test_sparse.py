"""Sparse against dense local responses, preparation charged: the paper's runtime comparison."""

import pytest

from bench.attention import arithmetic
from finite_calculus.studies.runtime.attention import dense, draw, fused, sparse

# Tokens, spans, tokens of a span: the shape of the paper's native case, then its synthetic cases.
CASES = [
    (112, 8, 7),
    (128, 8, 8),
    (128, 256, 8),
    (1024, 8, 8),
    (1024, 256, 8),
    (8192, 8, 8),
    (8192, 256, 8),
]
TARGETS = {1: {(8192, 256): 30.0}, 3: {(8192, 256): 80.0}}
EVERYWHERE = {1: 1.0, 3: 1.22}
STRENGTHS = {1: (1.0,), 3: (0.1, 0.5, 1.0)}


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("tokens", "spans", "members"), CASES)
def test_sparse_beside_dense(compare, tokens: int, spans: int, members: int, count: int):
    inputs = draw(tokens, spans, members, STRENGTHS[count])
    compare(
        f"sparse response, N={tokens}, C={spans}, strengths={count}",
        lambda: sparse(inputs),
        lambda: dense(inputs),
        named="dense softmax",
        target=TARGETS[count].get((tokens, spans), EVERYWHERE[count]),
    )


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize(("tokens", "spans", "members"), CASES[:2])
def test_the_arithmetic_of_few_spans_beside_dense(compare, tokens, spans, members, count: int):
    """The floor of the rows above, where the number of operations is what counts."""
    inputs = draw(tokens, spans, members, STRENGTHS[count])
    compare(
        f"sparse arithmetic alone, N={tokens}, C={spans}, strengths={count}",
        lambda: arithmetic(inputs),
        lambda: dense(inputs),
        named="dense softmax",
    )


@pytest.mark.parametrize(("tokens", "spans", "members"), CASES)
def test_dense_beside_fused_attention(compare, tokens: int, spans: int, members: int):
    inputs = draw(tokens, spans, members)
    compare(
        f"dense response, N={tokens}, C={spans}",
        lambda: dense(inputs),
        lambda: fused(inputs),
        named="fused attention",
        rounds=2 if tokens * spans > 1_000_000 else 5,
    )
