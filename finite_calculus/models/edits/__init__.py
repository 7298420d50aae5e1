"""Edits of one attention readout, a file for each, all imported; `base` says what an edit is."""
# ruff: noqa: I001 — edits are registered, listed on the command line and run in this order.

from importlib import import_module
from pkgutil import iter_modules

from finite_calculus.models.edits.base import (
    Edit as Edit,
    Edits as Edits,
    Tokens as Tokens,
    apply_edits as apply_edits,
    as_counterfactuals as as_counterfactuals,
    as_tuple as as_tuple,
    check_bank as check_bank,
    edited_bank as edited_bank,
    register as register,
    registered_edits as registered_edits,
    unregister as unregister,
)
from finite_calculus.models.edits.replace import Replace as Replace
from finite_calculus.models.edits.odds import Odds as Odds
from finite_calculus.models.edits.delete import Delete as Delete
from finite_calculus.models.edits.scale_values import ScaleValues as ScaleValues
from finite_calculus.models.edits.quantise import Quantise as Quantise
from finite_calculus.models.edits.query import QueryEdit as QueryEdit
from finite_calculus.models.edits.key_shift import (
    BANDS as BANDS,
    KeyShift as KeyShift,
    third as third,
)
from finite_calculus.models.edits.restore import Restore as Restore

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
