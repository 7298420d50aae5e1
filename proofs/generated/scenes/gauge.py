"""Scores less σ = uᵀg, an anchor's weights, shifted keys, and the curvature in a reference gauge.

Topics: gauge and curvature.
"""

from __future__ import annotations

from typing import Any

import sympy as sp

from proofs.generated.environment import Environment
from proofs.generated.evaluation import phi1
from proofs.generated.scenes.head import (
    HEAD,
    L,
    Z,
    a,
    c,
    columns,
    entries_of,
    f,
    first_entry,
    mean,
    plain,
    s,
    scores_at,
    selection,
    u_row,
    values,
)
from proofs.prover.syntax import Index, Letter, S
from proofs.references import effective as of_affine
from proofs.references.vectors import dot, softmax, sub, weigh

sigma, kappa = sp.symbols("sigma kappa")
h = Index("h")
_anchor_scores, _ca = Index("anchor scores"), Index("c_a")


def _finite_change(env: Environment) -> list[Any]:
    """(u + h·du)ᵀ(M + h·dM) − uᵀM."""
    num, small = env.num, env[sp.Symbol("h_")]
    step, change = (env[Letter(name, "m+1", "r")].rows for name in ("DM_u", "dDM"))
    moved = [
        x + small * y
        for x, y in zip(
            entries_of(env, u_row), entries_of(env, Letter("du^T", "1", "m+1")), strict=True
        )
    ]
    after = [
        [x + small * y for x, y in zip(*pair, strict=True)]
        for pair in zip(step, change, strict=True)
    ]
    return sub(
        weigh(num, moved, after), weigh(num, entries_of(env, u_row), [list(r) for r in step])
    )


def _shifted_features(env: Environment) -> list[Any]:
    projection, shift = [list(row) for row in env[L].rows], entries_of(env, Letter("b", "d", "1"))
    moved = of_affine.key_shift_gauge(env.num, projection=projection, key_shift=shift)
    return [sub(feature, moved) for feature in env.case["features"]]


GAUGE = HEAD.with_symbols(
    {
        sigma: lambda env: env.evaluate(u_row * Letter("g", "m+1", "1")).rows[0][0],
        kappa: sp.exp(sigma),
        h: s - sigma,
        f: phi1(h),
        Index("c_i"): phi1(s) / Z,
        _anchor_scores: scores_at("anchor_input"),
        _ca: phi1(_anchor_scores) / S(sp.exp(_anchor_scores)),
        Letter("DM_u", "m+1", "r"): S(Index("c_i") * a * (values - mean)),
        Letter("dDM", "m+1", "r"): S(_ca * a * (values - mean)),
        Index("p"): sp.exp(s) / S(sp.exp(s)),
    }
).with_definitions(
    {
        "eq:gauge coordinate": first_entry(of_affine.output),
        "eq:gauge matrix": plain(of_affine.output),
        "eq:tokenerror": plain(of_affine.anchor_error),
        "U7": _finite_change,
        "U8 features": _shifted_features,
        "U8 softmax": lambda env: softmax(env.num, scores_at("query_input")(env)),
        "prop:bounded readout: +": first_entry(of_affine.output),
    }
)


# --- curvature: features relative to a reference key ---


def _relative(env: Environment) -> list[list[Any]]:
    origin = env.case["features"][env.floats["reference"]]
    return [sub(feature, origin) for feature in env.case["features"]]


def _quadratic_form(env: Environment) -> Any:
    edit = entries_of(env, Letter("h", "m", "1"))
    image = [dot(env.num, row, edit) for row in of_affine.curvature(env.num, **env.case)]
    return dot(env.num, edit, image)


_relative_scores = Index("relative scores")
CURVATURE = GAUGE.with_symbols(
    {
        a: lambda env: columns(_relative(env)),
        Index("a1"): lambda env: [row[0] for row in _relative(env)],
        Index("a2"): lambda env: [row[1] for row in _relative(env)],
        s: scores_at("query_input"),
        Index("s_other"): s,
        sp.Symbol("s_0"): lambda env: env[s][env.floats["reference"]],
        Index("1_0"): lambda env: [float(j == env.floats["reference"]) for j in range(env.size)],
        _relative_scores: lambda env: [
            dot(env.num, env.case["query_input"], row) for row in _relative(env)
        ],
        c: phi1(_relative_scores) / S(sp.exp(_relative_scores)),
        Letter("P", "m+1", "m"): selection,
    }
).with_definitions(
    {
        "main:curvature form": _quadratic_form,
        "eq:gauge coordinate": first_entry(of_affine.output),
        "U9 diagonal": lambda env: of_affine.curvature(env.num, **env.case)[0][0],
        "U9 off": lambda env: of_affine.curvature(env.num, **env.case)[0][1],
    }
)
