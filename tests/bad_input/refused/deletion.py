"""Mistakes in what is deleted, and in plans of evictions."""

import torch

import finite_calculus as fc
from tests.bad_input.inputs import (
    INF,
    KEYS,
    NAN,
    false,
    half_masked,
    heads,
    one_head,
    projection,
    true,
)
from tests.bad_input.refusal import TYPE, VALUE, Refusal

DELETION = [
    Refusal(
        "deletion of a prepared group of everything",
        lambda: fc.prepare(one_head(), torch.arange(KEYS).unsqueeze(0)).deletion(),
        VALUE,
        "`groups` … leave at least one attended key … got a group that holds all",
    ),
    Refusal(
        "deletion of everything",
        lambda: fc.deletion_response(one_head(), true(1, KEYS)),
        VALUE,
        "`removed` … leave at least one attended key … got a group that holds all",
    ),
    Refusal(
        "deletion of everything attended",
        lambda: fc.deletion_response(half_masked(), (torch.arange(KEYS) < 3).unsqueeze(0)),
        VALUE,
        "`removed` … leave at least one attended key … got a group that holds all",
    ),
    *(
        Refusal(
            f"{call.__name__}: {mistake}",
            lambda call=call, bad=bad: call(one_head(), bad()),
            *rest,
        )
        for call in (fc.deletion_response, fc.deletion_jacobian)
        for mistake, bad, *rest in [
            (
                "indices",
                lambda: torch.tensor([[0, 1, 0, 0, 0]]),
                TYPE,
                "`removed` … boolean … got torch.int64",
            ),
            (
                "other keys",
                lambda: false(1, KEYS - 1),
                VALUE,
                "`removed` … (*, 5) … got (1, 4)",
            ),
            (
                "one group without its axis",
                lambda: false(KEYS),
                VALUE,
                "`removed` … (candidates, keys) … got (5,)",
            ),
            (
                "a batch of groups",
                lambda: false(2, 1, KEYS),
                VALUE,
                "`removed` … (candidates, keys) … got (2, 1, 5)",
            ),
        ]
    ),
    *(
        Refusal(
            f"budget {budget}",
            lambda budget=budget: fc.select_evictions(
                heads(), false(1, KEYS), projection(), budget
            ),
            VALUE,
            f"`budget` … non-negative … got {budget}",
        )
        for budget in (-1e-9, -INF, NAN)
    ),
    Refusal(
        "a plan for no heads",
        lambda: fc.select_evictions(one_head(), false(1, KEYS), projection(), 1.0),
        VALUE,
        "`readout` … (heads,) … got ()",
    ),
    Refusal(
        "a plan over indices",
        lambda: fc.select_evictions(heads(), torch.tensor([[0, 1]]), projection(), 1.0),
        TYPE,
        "`groups` … boolean … got torch.int64",
    ),
    Refusal(
        "a plan over other keys",
        lambda: fc.select_evictions(heads(), false(1, KEYS + 1), projection(), 1.0),
        VALUE,
        "`groups` … (*, 5) … got (1, 6)",
    ),
]
