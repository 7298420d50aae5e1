"""What the symbols of a statement stand for in one case.

A `Scene` says what a case is drawn from and what symbols mean there (p is the softmax of the scores,
E is e^d, …). A symbol that no scene binds is what the statement's own model defines it to be, and a
symbol without any definition is free: it is drawn from the adversarial regimes by its sort. Symbols are
known by sort and name, so that a binding serves every statement, also one that is written later.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

import numpy as np
import sympy as sp
from sympy.core.function import UndefinedFunction

from proofs.generated import evaluation
from proofs.numeric import regimes
from proofs.numeric.cases import Case
from proofs.prover.exact import Matrix
from proofs.prover.statements import Statement
from proofs.prover.syntax import Index, Letter
from proofs.references.numbers import as_numbers
from proofs.references.series import SeriesNumbers

Rng = np.random.Generator
# An expression in other symbols, or a function of the environment.
Binding = sp.Expr | Callable[["Environment"], Any]
Definition = Callable[["Environment"], Any]
Key = tuple[str, str]


def key(symbol: Any) -> Key:
    """Sort and name of a symbol; its assumptions do not matter here."""
    if isinstance(symbol, UndefinedFunction):
        return "function", str(symbol)
    sort = "matrix" if isinstance(symbol, Letter) else "key" if isinstance(symbol, Index) else ""
    return sort or "number", symbol.name


@dataclass(frozen=True)
class Scene:
    """Where cases come from, what symbols mean in them, and the definitions of the quantities.

    `draw(rng, calm)` gives the floats of a case as lists, with its number of keys as `size`; a calm
    case is one over which quadrature is affordable. `definitions` are keyed by how the names of their
    statements begin; the longest such beginning counts.
    """

    draw: Callable[[Rng, bool], Case]
    symbols: Mapping[Any, Binding] = field(default_factory=dict)
    definitions: Mapping[str, Definition] = field(default_factory=dict)
    dimensions: Callable[[Case], dict[str, int]] = lambda case: {"d": 2, "m": 3, "m+1": 4, "r": 2}

    def with_symbols(self, symbols: Mapping[Any, Binding]) -> Scene:
        """The scene with more symbols, or others in their place."""
        return Scene(
            self.draw, {**self.symbols, **symbols}, self.definitions, dimensions=self.dimensions
        )

    def with_definitions(self, definitions: Mapping[str, Definition]) -> Scene:
        """The scene with definitions of its own."""
        return Scene(self.draw, self.symbols, definitions, dimensions=self.dimensions)

    def definition(self, name: str) -> Definition | None:
        """The hand-written definition of what the sides of a statement are, if there is one."""
        starts = [start for start in self.definitions if name.startswith(start)]
        return self.definitions[max(starts, key=len)] if starts else None


class Environment:
    """Values of the symbols of one statement in one case, in the numbers of a context.

    It also serves the samplers of a statement's model, which ask it for values, sizes and dimensions.
    """

    def __init__(self, num: Any, statement: Statement, scene: Scene, case: Case) -> None:
        self.num = SeriesNumbers(num)
        self.size: int = case["size"]
        self.floats = case
        self.case: Case = {name: as_numbers(num.real, item) for name, item in case.items()}
        self._scene = scene
        self._bindings = {key(symbol): binding for symbol, binding in scene.symbols.items()}
        self._model = {key(symbol): definition for symbol, definition in statement.model}
        # Whoever asks first, a free symbol is drawn with the assumptions of the statement.
        sides = (statement.lhs, statement.rhs)
        self._symbols = {key(symbol): symbol for side in sides for symbol in side.free_symbols}
        self._values: dict[Key, Any] = {}

    def __getitem__(self, symbol: Any) -> Any:
        place = key(symbol)
        if place not in self._values:
            value = self._convert(self._make(symbol, place))
            if place[0] == "key" and not isinstance(value, list):
                value = [value] * self.size
            self._values[place] = value
        return self._values[place]

    def evaluate(self, expr: sp.Basic) -> Any:
        """The value of an expression, a list over the keys where an index occurs free in it."""
        return evaluation.evaluate(expr, self)

    def dimension(self, name: str) -> int:
        """How many rows or columns a letter has."""
        return 1 if name == "1" else self._scene.dimensions(self.floats)[name]

    def _make(self, symbol: Any, place: Key) -> Any:
        binding = self._bindings.get(place)
        if binding is not None:
            return self.evaluate(binding) if isinstance(binding, sp.Basic) else binding(self)
        seed = zlib.crc32(f"{self.floats['seed']}|{place}".encode())
        definition = self._model.get(place)
        if definition is not None:
            if isinstance(definition, sp.Basic):
                return self.evaluate(definition)
            return definition(self, random.Random(seed))
        return self._draw(self._symbols.get(place, symbol), np.random.default_rng(seed))

    def _draw(self, symbol: Any, rng: Rng) -> Any:
        """A free value from the regimes, by sort."""
        if isinstance(symbol, UndefinedFunction):
            raise ValueError(f"a scene must say what the function {symbol} is")
        if isinstance(symbol, Letter):
            shape = tuple(self.dimension(name) for name in symbol.shape)
            count = self.size if symbol.indexed else 1
            matrices = regimes.vectors(rng, (1, count, *shape))[0].tolist()
            return [Matrix(rows) for rows in matrices] if symbol.indexed else Matrix(matrices[0])
        if isinstance(symbol, Index):
            if symbol.idempotent:
                return rng.integers(0, 2, self.size).astype(float).tolist()
            entries = regimes.vectors(rng, (1, self.size, 1))[0, :, 0]
            positive = np.abs(entries) + (entries == 0)
            return (positive if symbol.is_nonnegative else entries).tolist()
        number = float(regimes.spread(rng, (), -4, 2))
        return abs(number) if symbol.is_nonnegative else number

    def _convert(self, value: Any) -> Any:
        """Floats, integers and rationals made numbers of the context."""
        if isinstance(value, list):
            return [self._convert(item) for item in value]
        if isinstance(value, Matrix):
            return Matrix([[self._convert(entry) for entry in row] for row in value.rows])
        if isinstance(value, Fraction):
            return self.num.real(value.numerator) / self.num.real(value.denominator)
        return self.num.real(value) if isinstance(value, float | int) else value
