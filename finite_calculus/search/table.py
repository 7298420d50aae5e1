"""The frozen table of a search: arrays, one entry per candidate; a row or an edit only when asked for."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from finite_calculus.certificate import Certificate
from finite_calculus.models import Capture, Edit
from finite_calculus.models.edits import Edits, as_tuple
from finite_calculus.models.words import short_repr
from finite_calculus.search.beyond import Calibrated, Downstream

if TYPE_CHECKING:
    from finite_calculus.search.block import Block, Effects

Side = Literal["either", "answer", "versus"]
COLUMNS = ("effect", "key", "value", "interaction")


@dataclass(frozen=True, eq=False)
class Part:
    """Consecutive rows of a table: a kind at layers × groups, or edits listed one by one.

    `layers` holds the layer of every row for listed edits, and of every row of the grid otherwise.
    """

    __repr__ = short_repr

    layers: Int[Tensor, " layers"]
    tokens: Int[Tensor, "groups members"] | None
    kind: Edit | None
    listed: tuple[Edits, ...]
    effect: Float[Tensor, " rows"]
    key: Float[Tensor, " rows"]
    value: Float[Tensor, " rows"]
    interaction: Float[Tensor, " rows"]

    @classmethod
    def of_block(cls, block: "Block", effects: "Effects") -> "Part":
        """The rows of a scored block, layer by layer."""
        stack = block.places.stack
        return cls(
            layers=torch.tensor([layer.layer for layer in stack.layers]),
            tokens=stack.tokens(block.places.columns),
            kind=block.kind,
            listed=(),
            effect=effects.total.flatten(),
            key=effects.key.flatten(),
            value=effects.value.flatten(),
            interaction=effects.interaction.flatten(),
        )

    def layer_of_rows(self) -> Tensor:
        """The layer of every row."""
        return (
            self.layers if self.tokens is None else self.layers.repeat_interleave(len(self.tokens))
        )

    def place(self, row: int) -> tuple[int, tuple[int, ...]]:
        """Layer and tokens of one row."""
        if self.tokens is None:
            edits = as_tuple(self.listed[row])
            return edits[0].layer, tuple(token for edit in edits for token in edit.tokens)
        layer, group = divmod(row, len(self.tokens))
        return int(self.layers[layer]), tuple(self.tokens[group].tolist())

    def name(self, row: int) -> str:
        """The edit in a few words."""
        if self.kind is not None:
            return self.kind.name
        return " + ".join(type(edit).__name__ for edit in as_tuple(self.listed[row]))


@dataclass(frozen=True)
class ScoreRow:
    """One candidate: what is done to which tokens, and its predicted effect with its parts.

    `first_order` and `bound` certify that the exact local score is within `bound` of `first_order`;
    they are None until the table is certified. `second` is the effect predicted to second order
    downstream, `trust` the share of it that the first order explains, `size` the write beside the
    residual stream, `outside` the share of the write that curvature does not see; `corrected`, the
    prediction with what executed candidates teach, `band` and `trusted` come from execution. Each is
    None where the table does not have it.
    """

    index: int
    layer: int
    tokens: tuple[int, ...]
    text: str
    kind: str
    effect: float
    key: float
    value: float
    interaction: float
    first_order: float | None
    bound: float | None
    second: float | None = None
    trust: float | None = None
    size: float | None = None
    outside: float | None = None
    corrected: float | None = None
    band: float | None = None
    trusted: bool | None = None


@dataclass(frozen=True, eq=False)
class ScoreTable:
    """Predicted effects of all candidates on logit(answer) − logit(versus), positive towards `answer`.

    `effect` = `key` + `value` + `interaction`. `text` holds the tokens of the prompt. `certificate`
    is there after `certify_table`, `downstream` with a capture that has curvature and after `calibrate`.
    """

    __repr__ = short_repr

    capture: Capture
    text: tuple[str, ...]
    parts: tuple[Part, ...]
    effect: Float[Tensor, " rows"]
    key: Float[Tensor, " rows"]
    value: Float[Tensor, " rows"]
    interaction: Float[Tensor, " rows"]
    certificate: Certificate | None = None
    downstream: Downstream | None = None

    def __len__(self) -> int:
        """Number of candidates."""
        return self.effect.shape[0]

    def _repr_html_(self) -> str:
        """As a notebook shows it: the prompt coloured by effect, and the first rows."""
        from finite_calculus.search.html import table_html

        return table_html(self)

    @cached_property
    def layer(self) -> Int[Tensor, " rows"]:
        """The layer of every candidate."""
        return torch.cat([part.layer_of_rows() for part in self.parts])

    @cached_property
    def starts(self) -> np.ndarray:
        """The first row of every part."""
        return np.cumsum([0, *(len(part.effect) for part in self.parts)])

    def topk(
        self, count: int, *, by: str = "effect", towards: Side = "either"
    ) -> tuple[ScoreRow, ...]:
        """The first `count` rows by a column: largest absolute value, or signed.

        `towards="answer"` puts the largest number first, `towards="versus"` the smallest.
        `by="predicted"` goes by the best prediction that there is, `by="certain"` by what remains
        certain of it, and then by the prediction.
        """
        return tuple(self.row(index) for index in self.order(count, by=by, towards=towards))

    def order(self, count: int, *, by: str = "effect", towards: Side = "either") -> list[int]:
        """Row numbers of `topk`; ties go to the earlier row."""
        if by not in (*COLUMNS, "predicted", "certain"):
            names = (*COLUMNS, "predicted", "certain")
            raise ValueError(f"`by` must be one of {names}; got {by!r}.")
        sign = sign_of(towards)
        if count < 0:
            raise ValueError(f"`count` must not be negative; got {count}.")
        count = min(count, len(self))
        if by == "certain":
            likely = self.order(len(self), by="predicted", towards=towards)
            certain = self.certain(towards=towards)[likely]
            chosen = torch.argsort(certain, descending=True, stable=True)[:count]
            return torch.tensor(likely)[chosen].tolist()
        column: Tensor = getattr(self, by)
        keyed = column * sign if sign else column.abs()
        if not count:
            return []
        # Only what reaches the last place is sorted, stably.
        reach = (keyed >= keyed.topk(count).values[-1]).nonzero().squeeze(-1)
        chosen = torch.argsort(keyed[reach], descending=True, stable=True)[:count]
        return reach[chosen].tolist()

    @property
    def predicted(self) -> Float[Tensor, " rows"]:
        """The predicted effects: corrected by executed ones, else to second order, else to first."""
        beyond = self.downstream
        if beyond is not None and beyond.calibrated is not None:
            return beyond.calibrated.corrected
        if beyond is not None and beyond.second is not None:
            return beyond.second
        return self.effect.double()

    def certain(self, *, towards: Side = "either") -> Float[Tensor, " rows"]:
        """What remains certain of every effect: its lowest size within the band, zero if not trusted.

        An executed effect is certain. With a side, only effects in that direction count.
        """
        beyond, sign = self.calibrated, sign_of(towards)
        likely = self.predicted * sign if sign else self.predicted.abs()
        low = torch.where(beyond.trusted, (likely - beyond.band).clamp(min=0), 0.0)
        done = beyond.executed * sign if sign else beyond.executed.abs()
        return torch.where(beyond.executed.isnan(), low, done.nan_to_num())

    @property
    def calibrated(self) -> Calibrated:
        """What execution said of the table; refuses a table that was not calibrated."""
        if self.downstream is None or self.downstream.calibrated is None:
            raise ValueError(
                "`table` must be calibrated; it is not. Use calibrate(instrument, table)."
            )
        return self.downstream.calibrated

    def row(self, index: int) -> ScoreRow:
        """One candidate in words and numbers."""
        part, inside = self._find(index)
        layer, tokens = part.place(inside)
        certificate = self.certificate
        return ScoreRow(
            index=index,
            layer=layer,
            tokens=tokens,
            text="".join(self.text[token] for token in tokens),
            kind=part.name(inside),
            effect=float(self.effect[index]),
            key=float(self.key[index]),
            value=float(self.value[index]),
            interaction=float(self.interaction[index]),
            first_order=None if certificate is None else float(certificate.first_order[index]),
            bound=None if certificate is None else float(certificate.bound[index]),
            **self._beyond(index),
        )

    def edit(self, index: int) -> Edits:
        """The edit of one candidate, for execution or generation."""
        part, inside = self._find(index)
        if part.kind is None:
            return part.listed[inside]
        layer, tokens = part.place(inside)
        return part.kind.at(layer, tokens)

    def rows(self, indices: Iterable[int] | None = None) -> list[ScoreRow]:
        """Rows by number, or all of them."""
        return [self.row(index) for index in (range(len(self)) if indices is None else indices)]

    def certified(self, certificate: Certificate) -> "ScoreTable":
        """The same table with a certificate for every row."""
        return replace(self, certificate=certificate)

    def to_pandas(self) -> Any:
        """All rows as a pandas DataFrame; needs pandas, which the package does not install."""
        try:
            import pandas  # pyright: ignore[reportMissingImports]
        except ImportError as error:
            raise ImportError(
                "`to_pandas` needs pandas, which is not installed: pip install pandas. "
                "The table's arrays and `rows()` need nothing."
            ) from error
        return pandas.DataFrame(self.columns())

    def columns(self) -> dict[str, Sequence[Any]]:
        """All rows as columns: numbers as arrays, tokens and texts as lists."""
        places = [part.place(row) for part in self.parts for row in range(len(part.effect))]
        names = [part.name(row) for part in self.parts for row in range(len(part.effect))]
        columns: dict[str, Sequence[Any]] = {
            "layer": [layer for layer, _ in places],
            "tokens": [tokens for _, tokens in places],
            "text": ["".join(self.text[t] for t in tokens) for _, tokens in places],
            "kind": names,
        }
        columns |= {name: getattr(self, name).double().numpy() for name in COLUMNS}  # pyright: ignore
        if self.certificate is not None:
            for name in ("first_order", "bound", "divergence", "total_variation"):
                columns[name] = getattr(self.certificate, name).double().numpy()
        if self.downstream is not None:
            columns |= {name: c.numpy() for name, c in self.downstream.columns().items()}  # pyright: ignore
        return columns

    def _beyond(self, index: int) -> dict[str, Any]:
        """What is known of one row downstream."""
        if self.downstream is None:
            return {}
        row = {name: column[index].item() for name, column in self.downstream.columns().items()}
        row.pop("executed", None)
        if "second" in row:
            first, term = abs(float(self.effect[index])), abs(row["second"] - self.effect[index])
            row["trust"] = float(first / (first + term)) if first + term else 1.0
        return row

    def _find(self, index: int) -> tuple[Part, int]:
        if not 0 <= index < len(self):
            raise IndexError(f"`index` must lie in 0..{len(self) - 1}; got {index}.")
        number = int(np.searchsorted(self.starts, index, side="right")) - 1
        return self.parts[number], index - int(self.starts[number])


def places_of(parts: tuple[Part, ...]) -> list[list[int]]:
    """Numbers of the parts that share their layers and places, and so their preparation."""
    groups: dict[object, list[int]] = {}
    for number, part in enumerate(parts):
        key: object = number
        if part.tokens is not None:
            key = (tuple(part.layers.tolist()), part.tokens.numpy().tobytes(), part.tokens.shape)
        groups.setdefault(key, []).append(number)
    return list(groups.values())


def sign_of(towards: Side) -> int:
    """1 towards the answer, −1 towards what it is compared with, 0 for either."""
    signs = {"either": 0, "answer": 1, "versus": -1}
    if towards not in signs:
        raise ValueError(f"`towards` must be one of {tuple(signs)}; got {towards!r}.")
    return signs[towards]


def table_of(capture: Capture, parts: Sequence[Part], *, tokenizer: Any = None) -> ScoreTable:
    """The table of several parts; tokens are shown as text if there is a tokenizer."""
    ids = capture.ids.tolist()
    text = [f"[{i}]" for i in ids] if tokenizer is None else [tokenizer.decode([i]) for i in ids]
    joined = {name: torch.cat([getattr(part, name) for part in parts]) for name in COLUMNS}
    return ScoreTable(
        capture=capture,
        text=tuple(text),
        parts=tuple(parts),
        effect=joined["effect"],
        key=joined["key"],
        value=joined["value"],
        interaction=joined["interaction"],
    )
