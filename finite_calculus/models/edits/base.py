"""What an edit is: a small frozen dataclass that takes a bank to an edited bank, rounded as the model is.

The same rounded tensors are given to the native execution and to the prediction's score and value
increments, so that the two differ by nothing but arithmetic. A tuple of edits is applied from left to
right. An edit also says all that others need to know of it: whether it acts on each key column by
itself, how it is written on the command line, what it is called in a table, where it is allowed and
which examples the preflight runs. A new edit is one class in one file, with `@register` above it.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import ClassVar, TypeVar

import torch
from jaxtyping import Bool
from torch import Tensor

from finite_calculus.models.layer import LayerBank, LayerCapture, by_groups_of, repeat_groups
from finite_calculus.models.words import short_repr

# Places of tokens in a prompt, from 0.
Tokens = tuple[int, ...]
# The layer of a template: an edit that has no place yet.
ANYWHERE = -1


@dataclass(frozen=True, eq=False)
class Edit:
    """An edit of the given tokens (key columns) at one layer's last query; subclasses give `apply`.

    An edit without a place is a template: `Odds.anywhere(64)` stands in a family, and `.at(layer,
    tokens)` puts it somewhere.

    `by_column`: acts on each of its columns by itself and reads no other. Only such edits stand in a
    family, since their increments at all tokens follow from one edited bank.
    `removes`: does nothing but take tokens out of the attended set.
    `folds`: depends on nothing but the head's own keys and values, so that many layers may be edited as
    one; the result is the same for either value, and faster if True.
    `by_score`: changes scores alone, and those of its own heads by itself.
    `words`: what it is called on the command line, as in odds:18:79:64; `amount` says whether a number
    follows.

    `heads` restricts an edit to some query heads. Scores are restricted by the edit itself; keys and values
    are stored once for the heads of a group, so that a bank with other ones for some heads holds them for
    each head.
    """

    by_column: ClassVar[bool] = False
    removes: ClassVar[bool] = False
    folds: ClassVar[bool] = False
    by_score: ClassVar[bool] = False
    words: ClassVar[tuple[str, ...]] = ()
    amount: ClassVar[bool] = True

    layer: int
    tokens: Tokens
    heads: tuple[int, ...] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        """Refuse a layer that is no number; tokens may be any sequence of indices and are kept as a tuple."""
        if not _is_index(self.layer):
            raise TypeError(
                f"`layer` of {type(self).__name__} must be the number of a layer; got {self.layer!r}."
            )
        tokens = self.tokens
        if not isinstance(tokens, tuple | list | range) or not all(map(_is_index, tokens)):
            raise TypeError(
                f"`tokens` of {type(self).__name__} must be token indices, as in (3,) or range(3, 7); got "
                f"{self.tokens!r}."
            )
        heads = self.heads
        if heads is not None:
            if not isinstance(heads, tuple | list | range) or not all(map(_is_index, heads)):
                raise TypeError(
                    f"`heads` of {type(self).__name__} must be query heads, as in (0, 3), or None for all; "
                    f"got {heads!r}."
                )
            object.__setattr__(self, "heads", tuple(sorted(set(map(int, heads)))))
        object.__setattr__(self, "layer", int(self.layer))
        object.__setattr__(self, "tokens", tuple(map(int, tokens)))

    def __init_subclass__(cls) -> None:
        # Before the subclass becomes a dataclass, which keeps what is there.
        cls.__repr__ = Edit.__repr__

    def __repr__(self) -> str:
        return short_repr(self).replace(", heads=None", "")

    def apply(self, layer: LayerCapture, bank: LayerBank) -> LayerBank:
        """The edited bank."""
        raise NotImplementedError(f"{type(self).__name__} must define apply.")

    @classmethod
    def anywhere(cls, *settings: object, **named: object) -> "Edit":
        """A template with these settings, which follow `layer` and `tokens` in the constructor."""
        return cls(ANYWHERE, (), *settings, **named)

    def at(self, layer: int, tokens: Tokens) -> "Edit":
        """The same edit at a layer and tokens."""
        return replace(self, layer=layer, tokens=tokens)

    @classmethod
    def from_text(cls, word: str, amount: float | None) -> "Edit":
        """The template of one of `words`, with the number that followed it."""
        return cls.anywhere() if amount is None else cls.anywhere(amount)

    @property
    def name(self) -> str:
        """A few words for a table, the same at every place."""
        return type(self).__name__

    def allowed(self, layer: LayerCapture) -> Bool[Tensor, " keys"]:
        """The key columns that may be edited; none where the layer does not permit this edit."""
        return torch.ones_like(layer.attended)

    def common_score(self, layer: LayerCapture) -> Tensor | None:
        """What it adds to the score of each of its keys in every head, as (1,), if it does that alone."""
        return None

    @classmethod
    def examples(cls, layer: LayerCapture, donor: LayerCapture) -> "Sequence[Edits]":
        """Edits that do something, for the preflight; `donor` is the layer on another prompt."""
        raise NotImplementedError(f"{cls.__name__} must define examples, which the preflight runs.")

    @classmethod
    def idle_examples(cls, layer: LayerCapture, tokens: Tokens) -> "Sequence[Edits]":
        """Edits of this class that leave every tensor as it is, bit for bit."""
        return ()

    def rows(self, layer: LayerCapture) -> Tensor:
        """The query heads that are edited in this layer."""
        heads = range(layer.heads) if self.heads is None else self.heads
        wrong = [head for head in heads if head not in range(layer.heads)]
        if wrong or not heads:
            raise ValueError(
                f"`heads` must name heads in 0..{layer.heads - 1}; got {tuple(heads)}. "
                f"Leave it out for all heads."
            )
        return torch.tensor(list(heads))

    def columns(self, layer: LayerCapture) -> Tensor:
        """Key columns of the edited tokens in this layer."""
        if not self.tokens:
            raise ValueError(
                f"`tokens` of {type(self).__name__} must name at least one token; got none."
            )
        return layer.columns(self.tokens)


# What one counterfactual holds: an edit, or several at once.
Edits = Edit | tuple[Edit, ...]
EditClass = TypeVar("EditClass", bound=type[Edit])
_REGISTERED: list[type[Edit]] = []


def register(edit: EditClass) -> EditClass:
    """Let the command line and the preflight know a class of edits; words must be its own."""
    words = {word for other in _REGISTERED for word in other.words}
    if words.intersection(edit.words):
        raise ValueError(
            f"`words` of {edit.__name__} must not belong to another edit; "
            f"{', '.join(sorted(words.intersection(edit.words)))} does. Choose another."
        )
    _REGISTERED.append(edit)
    return edit


def unregister(edit: type[Edit]) -> None:
    """Forget a class of edits again."""
    _REGISTERED.remove(edit)


def registered_edits() -> tuple[type[Edit], ...]:
    """All known classes of edits, in the order of registration."""
    return tuple(_REGISTERED)


def as_tuple(edits: Edits) -> tuple[Edit, ...]:
    """One edit or several as a tuple, all of one layer: a counterfactual edits one readout."""
    several = edits if isinstance(edits, tuple) else (edits,)
    if not all(isinstance(edit, Edit) for edit in several):
        raise TypeError(
            f"A counterfactual must be an edit or a tuple of edits of one layer; got {_kind_of(edits)}. "
            f"A list holds several counterfactuals, each executed on its own."
        )
    if not several or len({edit.layer for edit in several}) != 1:
        raise ValueError(
            f"A counterfactual must edit exactly one layer; got layers "
            f"{sorted({edit.layer for edit in several})}. Exactness is about one readout at a time; for "
            f"several layers use predict_several and Instrument.execute_several."
        )
    return several


def as_counterfactuals(edits: object) -> list[tuple[Edit, ...]]:
    """A sequence of counterfactuals, each as a tuple; one alone is refused, since it has to be in a list."""
    if isinstance(edits, Edit) or not isinstance(edits, Sequence) or isinstance(edits, str):
        raise TypeError(
            f"`edits` must be a list of counterfactuals, as in [Delete(1, (3,))]; got {_kind_of(edits)}."
        )
    return [as_tuple(item) for item in edits]


def edited_bank(layer: LayerCapture, edits: Edits) -> LayerBank:
    """The bank after all edits, from left to right."""
    return apply_edits(layer, as_tuple(edits), layer.bank())


def apply_edits(layer: LayerCapture, edits: Iterable[Edit], bank: LayerBank) -> LayerBank:
    """A bank after edits, from left to right; it holds at least the columns that they touch."""
    for edit in edits:
        if edit.layer != layer.layer:
            raise ValueError(
                f"`edits` must be of layer {layer.layer}; got one of layer {edit.layer}. "
                f"Take that layer's capture."
            )
        bank = apply_to_heads(edit, layer, bank)
    check_bank(layer, bank)
    return bank


def apply_to_heads(edit: Edit, layer: LayerCapture, bank: LayerBank) -> LayerBank:
    """The bank after one edit; keys and values are those of the edit in its own heads alone."""
    edited = layer.rounded(edit.apply(layer, bank), bank)
    same = edited.keys is bank.keys and edited.values is bank.values
    if edit.heads is None or same:
        return edited
    rows = edit.rows(layer)
    return replace(
        edited,
        keys=_in_heads(rows, layer.heads, bank.keys, edited.keys),
        values=_in_heads(rows, layer.heads, bank.values, edited.values),
    )


def _in_heads(rows: Tensor, heads: int, before: Tensor, after: Tensor) -> Tensor:
    """One tensor for each head: the edited one in some, in the others that from before."""
    return repeat_groups(before, heads).index_copy(0, rows, repeat_groups(after, heads)[rows])


def check_bank(layer: LayerCapture, bank: LayerBank) -> None:
    """Require that an edited bank can be read: finite numbers, and something left to attend to."""
    check_attended(layer, bank)
    edited = (bank.query, bank.keys[:, bank.changed], bank.values[:, bank.changed], bank.bias)
    if not all(bool(torch.isfinite(tensor).all()) for tensor in edited):
        raise ValueError(
            f"`edits` must leave finite {layer.dtype} numbers; at layer {layer.layer} they make "
            f"some infinite or NaN. Use a smaller amount."
        )


def check_attended(layer: LayerCapture, bank: LayerBank) -> None:
    """Require that deletions leave something to attend to: a key, or the sink."""
    within = layer.attended if bank.columns is None else layer.attended[bank.columns]
    count = int(layer.attended.sum())
    gone = bank.removed | (bank.bias <= layer.precision.removing)
    if layer.sinks is None and bool(gone.any()) and int((within & gone).sum(-1).max()) == count:
        raise ValueError(
            f"`tokens` must leave at least one attended key; Delete removes all {count} of layer "
            f"{layer.layer}. Name fewer tokens."
        )


def replace_columns(
    bank: LayerBank, places: Tensor, *, keys: Tensor | None = None, values: Tensor | None = None
) -> LayerBank:
    """The bank with other keys or values at some places, which count as changed."""
    return replace(
        bank,
        keys=_with_columns(bank.keys, places, keys),
        values=_with_columns(bank.values, places, values),
        changed=bank.changed.index_fill(0, places, True),
    )


def _with_columns(before: Tensor, places: Tensor, new: Tensor | None) -> Tensor:
    return before if new is None else before.index_copy(1, places, by_groups_of(before, new))


def require_finite(edit: Edit, name: str) -> None:
    """Require that a setting of an edit is a finite number."""
    value = getattr(edit, name)
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(
            f"`{name}` of {type(edit).__name__} must be a finite number; got {value!r}."
        )


def attended_tokens(layer: LayerCapture) -> Tokens:
    """The tokens that a layer attends to, for examples."""
    return tuple(layer.first + int(i) for i in layer.attended.nonzero().squeeze(-1))


def _is_index(value: object) -> bool:
    # The question is asked for every token of a family; abstract classes answer slowly.
    return type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))


def _kind_of(value: object) -> str:
    """What came in place of an edit, in a few words."""
    kind = type(value).__name__
    if isinstance(value, list | tuple) and value:
        return f"a {kind} of {type(value[0]).__name__}"
    return f"a {kind}"
