"""Mistakes in caches, and in what is restored in them."""

import torch

import finite_calculus as fc
from tests.bad_input.inputs import (
    KEYS,
    MODEL,
    NAN,
    WIDTH,
    cache,
    half_masked,
    holding,
    one_head,
    projection,
    true,
)
from tests.bad_input.refusal import TYPE, VALUE, Refusal
from tests.helpers.tensors import draw

RESTORATION = [
    Refusal(
        "restoration of masked keys",
        lambda: fc.restoration_response(half_masked(), draw(KEYS), draw(KEYS, WIDTH)),
        VALUE,
        "`readout` … attend every key … got masked keys",
    ),
    Refusal(
        "restoration with NaN",
        lambda: fc.restoration_response(one_head(), holding(NAN, KEYS), draw(KEYS, WIDTH)),
        VALUE,
        "`score_delta` … finite … got 1 NaN",
    ),
    Refusal(
        "benefit of other width",
        lambda: fc.restoration_benefit(draw(MODEL), draw(KEYS, MODEL + 1)),
        VALUE,
        "`change` … (*, 4) … got (5, 5)",
    ),
    Refusal(
        "benefit of mixed types",
        lambda: fc.restoration_benefit(draw(MODEL).float(), draw(KEYS, MODEL)),
        TYPE,
        "share one dtype … `error` is torch.float32 … `change` is torch.float64",
    ),
    Refusal(
        "unknown method",
        lambda: fc.restoration_scores(cache(), projection(), "best"),
        VALUE,
        "`method` … one of … 'exact' … got 'best'",
    ),
    Refusal(
        "random scores without a generator",
        lambda: fc.restoration_scores(cache(), projection(), "random"),
        VALUE,
        "`generator` … seeded torch.Generator … got None",
    ),
    Refusal(
        "random restoration without a generator",
        lambda: fc.restore_greedily(cache(), projection(), 1, method="random"),
        VALUE,
        "`generator` … seeded torch.Generator … got None",
    ),
    *(
        Refusal(
            f"restoring {count} of 5",
            lambda count=count: fc.restore_greedily(cache(), projection(), count),
            VALUE,
            f"`count` … between 0 and the number of candidates, 5 … got {count}",
        )
        for count in (-1, KEYS + 1)
    ),
    Refusal(
        "restoring more than the candidates",
        lambda: fc.restore_greedily(cache(), projection(), 3, candidates=torch.arange(KEYS) < 2),
        VALUE,
        "`count` … number of candidates, 2 … got 3",
    ),
    Refusal(
        "candidates as numbers",
        lambda: fc.restore_greedily(cache(), projection(), 1, candidates=torch.arange(KEYS)),
        TYPE,
        "`candidates` … boolean … got torch.int64",
    ),
    Refusal(
        "candidates among other keys",
        lambda: fc.restore_greedily(cache(), projection(), 1, candidates=true(1)),
        VALUE,
        "`candidates` … (5) … got (1,)",
    ),
    *(
        Refusal(
            f"restoring key {key}",
            lambda key=key: cache().restore(key),
            VALUE,
            f"`key` … 0..4 … got values from {key}",
        )
        for key in (-1, KEYS)
    ),
    Refusal(
        "restoring keys of other caches",
        lambda: cache().restore(torch.zeros(3, dtype=torch.int64)),
        VALUE,
        "`key` … one key for each cache … got (3,)",
    ),
    *(
        Refusal(f"cache: {mistake}", lambda parts=parts: fc.CachePair(*parts()), error, says)
        for mistake, parts, error, says in [
            (
                "scores without heads",
                lambda: (draw(5), draw(2, 5, 3), draw(2, 5), draw(2, 5, 3)),
                VALUE,
                "`scores` … (..., heads, keys) … got (5,)",
            ),
            (
                "values of other keys",
                lambda: (draw(2, 5), draw(2, 4, 3), draw(2, 5), draw(2, 4, 3)),
                VALUE,
                "`values` … (2, 5, *) … got (2, 4, 3)",
            ),
            (
                "originals of other heads",
                lambda: (draw(2, 5), draw(2, 5, 3), draw(1, 5), draw(2, 5, 3)),
                VALUE,
                "`original_scores` … (2, 5) … got (1, 5)",
            ),
            (
                "original values of other width",
                lambda: (draw(2, 5), draw(2, 5, 3), draw(2, 5), draw(2, 5, 1)),
                VALUE,
                "`original_values` … (2, 5, 3) … got (2, 5, 1)",
            ),
            (
                "mixed types",
                lambda: (draw(2, 5), draw(2, 5, 3), draw(2, 5).float(), draw(2, 5, 3)),
                TYPE,
                "share one dtype … `original_scores` is torch.float32",
            ),
        ]
    ),
]
