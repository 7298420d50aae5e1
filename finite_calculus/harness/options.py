"""Settings as options of a command, in both directions: what `--help` shows, and what reproduces a run.

Everything comes from the fields of the settings: an option for each, its type, its help, its default. A field
of several values may be repeated or take commas (`none` for no value); a field of layers takes ranges too,
and `all`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from finite_calculus.harness.settings import LayerList, OptionName, StudySettings, require_layers

# The study is the command itself.
_NOT_OPTIONS = ("study",)
# More layers than any model has, and digits than their number.
_DEEPEST, _DIGITS = 1 << 16, 18


@dataclass(frozen=True)
class Option:
    """One option: the field that it sets, its flag, its help and the type of one value."""

    field: str
    flag: str
    help: str
    kind: type
    several: bool
    layers: bool
    folder: bool


def options_of(settings: type[StudySettings]) -> list[Option]:
    """The options of a study: the model, what is the study's own, then what all studies have."""
    fields = [item for item in settings.model_fields.items() if item[0] not in _NOT_OPTIONS]
    own = set(vars(settings).get("__annotations__", ()))
    ordered = sorted(fields, key=lambda item: (item[0] != "model", item[0] not in own))
    return [_option(name, field) for name, field in ordered]


def settings_from(
    settings: type[StudySettings], values: Mapping[str, Any], depth: int | None
) -> StudySettings:
    """Settings from the values of options, by field; `depth` is the number of the model's layers."""
    parsed: dict[str, Any] = {}
    for option in options_of(settings):
        value = values.get(option.field)
        if value is None or (option.several and not value):
            continue
        parsed[option.field] = _several(option, value, depth) if option.several else value
    complete = settings.complete(parsed, depth)
    if depth is not None:
        require_layers(complete, depth)
    return complete


def command_words(settings: StudySettings) -> list[str]:
    """The options that reproduce settings; DIR stands for a folder of the user."""
    words: list[str] = []
    saved = settings.model_dump(mode="json")
    for option in options_of(type(settings)):
        value = getattr(settings, option.field)
        if option.folder:
            words += [option.flag, "DIR"] if option.field in settings.folders else []
        elif option.several:
            words += [option.flag, ",".join(_text(item) for item in value) or "none"]
        elif isinstance(value, bool):
            words += [] if value else [f"--no-{option.flag.removeprefix('--')}"]
        elif value is not None and option.field in saved:
            words += [option.flag, _text(saved[option.field])]
    return words


def place_words(settings: StudySettings) -> str:
    """The folders of the user that settings need, as `again` takes them."""
    return "".join(f" --place {field}=DIR" for field in settings.folders)


def _option(name: str, field: FieldInfo) -> Option:
    kind, several = _kind(field.annotation)
    renamed = [note.name for note in field.metadata if isinstance(note, OptionName)]
    flag = "--" + (renamed[0] if renamed else name).replace("_", "-")
    layers = any(isinstance(note, LayerList) for note in field.metadata)
    text = (field.description or name.replace("_", " ")) + _default(field)
    return Option(name, flag, text, kind, several, layers, bool(field.exclude))


def _default(field: FieldInfo) -> str:
    """The default in words; a field that says what it is, or that is filled later, has none to show."""
    told = "default:" in (field.description or "")
    if told or field.default is PydanticUndefined or field.default is None:
        return ""
    if isinstance(field.default, bool):
        return ""
    return f" Default: {_text(field.default)}."


def _kind(annotation: Any) -> tuple[type, bool]:
    """The type of one value on the command line, and whether there may be several."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _kind(parts[0])
    if origin is Literal:
        return str, False
    if origin is tuple:
        return str, True
    if origin is Union or (parts and type(None) in parts):
        return _kind(next(part for part in parts if part is not type(None)))
    return (annotation if annotation in (int, float, bool, Path) else str), False


def _several(option: Option, values: Sequence[Any], depth: int | None) -> tuple[Any, ...]:
    pieces = [piece.strip() for value in values for piece in str(value).split(",")]
    if pieces == ["none"]:
        return ()
    if not option.layers:
        return tuple(pieces)
    if pieces == ["all"] and depth is not None:
        return tuple(range(depth))
    limit = _DEEPEST if depth is None else depth
    return tuple(layer for piece in pieces for layer in _range(option.flag, piece, limit))


def _range(flag: str, piece: str, limit: int) -> range:
    """The layers of a range below `limit`, and then `limit` itself, which is refused later."""
    first, dash, last = piece.partition("-")
    numbers = [first, last] if dash else [first, first]
    if not all(text.isascii() and text.isdigit() and len(text) <= _DIGITS for text in numbers):
        raise ValueError(
            f"{flag} must be numbers separated by commas, as in 0,3,7-9; got {piece[:80]!r}."
        )
    start, stop = (min(int(text), limit) for text in numbers)
    return range(start, stop + 1)


def _text(value: Any) -> str:
    if isinstance(value, tuple | list):
        return ",".join(_text(item) for item in value)
    return str(value)
