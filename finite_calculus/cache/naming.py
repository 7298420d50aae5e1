"""Transforms by name: ours with their settings, a policy's file, or a function as package:function."""

import importlib
import re
from pathlib import Path
from typing import cast

from finite_calculus.cache.disk import Disk
from finite_calculus.cache.merging import Merge
from finite_calculus.cache.policy import Policy
from finite_calculus.cache.records import Transform
from finite_calculus.cache.transforms import Quantiser

FORM = (
    "package:function, (sym|asym)BITS/AXIS[,AXIS of the values], merge/NUMBER, disk/TYPE or a policy's "
    "file, *.json"
)
_NAMED = re.compile(r"(sym|asym)(\d+)/([a-z0-9]+)(?:,([a-z0-9]+))?")


def named_transform(text: str) -> Transform:
    """A transform from its name: sym4/vector, merge/2, disk/float16, package:function, a policy's file."""
    kind, _, amount = text.partition("/")
    if kind == "merge" and amount.isdigit():
        return Merge(int(amount))
    if kind == "disk":
        return Disk(amount)
    if text.endswith(".json"):
        return Policy.load(Path(text))
    match = _NAMED.fullmatch(text)
    if match is not None:
        kind, bits, keys, values = match.groups()
        return Quantiser(int(bits), kind == "sym", keys, values or keys)
    module, colon, name = text.partition(":")
    if not colon:
        raise ValueError(f"A transform must be {FORM}; got {text!r}. For example asym4/group32.")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"A transform must be {FORM}; {text!r} cannot be had: {error}.") from None
    if not callable(function):
        raise ValueError(f"A transform must be a function; {text!r} is {type(function).__name__}.")
    return cast("Transform", function)
