"""A statement as MathML, made from its two sides: the mathematics that a reader sees is what is proved.

SymPy's presentation printer with our own names. A quantity of every key carries the subscript j, and so does
a sum over keys (or planes, heads, samples); e^d is one letter to the prover and is written out here.
"""

import re
from typing import Any

import sympy as sp
from sympy.printing.mathml import MathMLPresentationPrinter

from proofs.prover.statements import Statement
from proofs.prover.syntax import Index, Letter

# Letters of the prover that stand for more than their name says.
_WORDS = {
    "E": "e^d",
    "eps": "ε",
    "lam": "λ",
    "phi": "φ_1",
    "phi2": "φ_2",
    "Dy": "Δy",
    "DM": "ΔM",
    "dDM": "δΔM",
    "Dm": "Δm",
    "du": "δu",
    "What": "Ŵ",
    "abar": "ā",
    "lse": "lse",
    "gap": "gap",
}  # fmt: skip
_NAMESPACE = "http://www.w3.org/1998/Math/MathML"
# Entities of SymPy that fonts rarely have or HTML does not know; a hyphen is no minus.
_PLAIN = {"&ExponentialE;": "e", "&dd;": "d", "&InvisibleTimes;": "\u2062", "-": "−"}
_NAME = re.compile(
    r"(?P<base>[A-Za-z]+|\d+)(?P<number>\d*)(?:_(?P<low>[^^]+))?(?P<prime>'?)(?P<high>\^T|\+)?"
)


def mathml(statement: Statement) -> str:
    """`lhs relation rhs` as one MathML element."""
    printer = _Printer()
    return _element(printer, statement.lhs, statement.relation, statement.rhs)


def hypotheses(statement: Statement) -> list[str]:
    """What the statement assumes of its letters, each `pivot = value`, as MathML."""
    printer = _Printer()
    return [_element(printer, left, "=", right) for left, right in statement.hypotheses]


def _element(printer: "_Printer", left: sp.Expr, relation: str, right: sp.Expr) -> str:
    row = printer.row(printer._print(left), printer.mark(relation), printer._print(right))
    text = row.toxml()
    for entity, plain in _PLAIN.items():
        text = text.replace(entity, plain)
    return f'<math xmlns="{_NAMESPACE}" display="block">{text}</math>'


class _Printer(MathMLPresentationPrinter):
    """SymPy's printer with sums over keys and the names of this project."""

    def __init__(self) -> None:
        super().__init__()

    def row(self, *parts: Any) -> Any:
        """The parts side by side."""
        return self._with("mrow", *parts)

    def mark(self, text: str) -> Any:
        """An operator."""
        return self._text("mo", text)

    def _print_S(self, expr: Any) -> Any:  # noqa: N802
        sigma = self._with("munder", self.mark("∑"), self._text("mi", "j"))
        return self.row(sigma, self._factor(expr.args[0]))

    def _print_Derivative(self, e: Any) -> Any:  # noqa: N802
        order = sum(count for _, count in e.variable_count)
        above = self._power(self.mark("∂"), order)
        steps = [
            self._power(self.row(self.mark("∂"), self._print(variable)), count)
            for variable, count in e.variable_count
        ]
        below = self.row(*steps)
        return self.row(self._with("mfrac", above, below), self._factor(e.expr))

    def _print_Subs(self, expr: Any) -> Any:  # noqa: N802
        pairs = zip(expr.variables, expr.point, strict=True)
        places = [sp.Eq(name, value, evaluate=False) for name, value in pairs]
        place = self._print(sp.Tuple(*places)) if len(places) > 1 else self._print(places[0])
        inside = self.row(self.mark("["), self._print(expr.expr), self.mark("]"))
        return self._with("msub", inside, place)

    def _power(self, base: Any, order: Any) -> Any:
        return base if order == 1 else self._with("msup", base, self._print(order))

    def _factor(self, expr: Any) -> Any:
        """In brackets, where it is a sum."""
        if isinstance(expr, sp.Add):
            return self.row(self.mark("("), self._print(expr), self.mark(")"))
        return self._print(expr)

    def _print_Symbol(self, sym: Any, style: str = "plain") -> Any:  # noqa: N802
        every = isinstance(sym, Index) or (isinstance(sym, Letter) and sym.indexed)
        return self._name(sym.name, every)

    def _name(self, name: str, every: bool) -> Any:
        """A name with its subscript, prime and transpose; `every` adds the subscript j."""
        parts = _NAME.fullmatch(name)
        if parts is None:
            return self._text("mi", name)
        written = _WORDS.get(parts["base"] + parts["number"])
        if written == "e^d":
            exponent = self._name("d", every)
            return self._with("msup", self._text("mi", "e"), exponent)
        base, _, low = (written or _WORDS.get(parts["base"], parts["base"])).partition("_")
        if not written and parts["number"]:
            low = parts["number"]
        low = ",".join(part for part in (low, parts["low"]) if part)
        if every and not re.search(r"\b[jkr]\b", low):
            low = f"{low},j" if low else "j"
        letter = self._text("mn" if base.isdigit() else "mi", _GREEK.get(base, base))
        high = (parts["prime"] and "′") + {"^T": "⊤", "+": "+", None: ""}[parts["high"]]
        lower = self._text("mi", _GREEK.get(low, low)) if low else None
        upper = self._text("mo", high) if high else None
        if lower and upper:
            return self._with("msubsup", letter, lower, upper)
        if lower:
            return self._with("msub", letter, lower)
        return self._with("msup", letter, upper) if upper else letter

    def _with(self, tag: str, *parts: Any) -> Any:
        element = self.dom.createElement(tag)
        for part in parts:
            element.appendChild(part)
        return element

    def _text(self, tag: str, text: str) -> Any:
        return self._with(tag, self.dom.createTextNode(text))


_GREEK = {
    "alpha": "α",
    "beta": "β",
    "delta": "δ",
    "Delta": "Δ",
    "eta": "η",
    "kappa": "κ",
    "mu": "μ",
    "omega": "ω",
    "Phi": "Φ",
    "tau": "τ",
    "theta": "θ",
}
