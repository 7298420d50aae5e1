"""What is fuzzed: parsers of what users write and of files, each with inputs that are nearly right.

A target draws an input and reads it; what is wrong with it must be a refusal of its own kind, in words that
fit a screen. The tests try a few inputs of each, `bench/fuzz.py` many, and counts.
"""

import hashlib
import io
import json
import re
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import typer
from hypothesis import strategies as st

from finite_calculus.checkpoints.errors import CheckpointError
from finite_calculus.checkpoints.folder import parts_of, read_config
from finite_calculus.cli.ranking import strengths
from finite_calculus.harness.directory import RUN, read_plan_file, read_run
from finite_calculus.harness.errors import StoreError
from finite_calculus.harness.options import options_of, settings_from
from finite_calculus.harness.packed import NO_ARCHIVE, unpack
from finite_calculus.harness.registry import find_study, study_names
from finite_calculus.harness.replay import _load
from finite_calculus.harness.rows import encode_rows
from finite_calculus.harness.shards import SEAL, problems
from finite_calculus.harness.untrusted import read_bounded
from finite_calculus.search.specs import parse_edit, parse_numbers, parse_request
from finite_calculus.studies.answer_repair.case_file import read_case
from finite_calculus.tasks.prompt_file import read_prompts
from tests.helpers.toy_study import Mean

# A refusal that is longer is none that anybody reads.
MOST_WORDS = 3_000
PIECES = [*':.,-=#"0179٣é\0 ', "odds", "bits", "delete", "fast", "value"]
PIECES += ["99999999999", "1e999", "nan", "inf", "-1"]
WORDS = st.lists(st.sampled_from(PIECES), max_size=12).map("".join)
AMOUNTS = st.sampled_from(["0", "1", "7", "2.5", "-16", "1e999", "nan", "inf", "1e-320", ""])
PLACES = st.sampled_from(["0", "3", "19", "5,7-9", "9-1", "20", "0-999999999", '"of"', "", "-1"])
# Of the forms that are asked for, with parts that mostly fit.
EDITS = WORDS | st.tuples(
    st.sampled_from(["odds", "bits", "delete", "fast", "slow", "value", "silence"]),
    st.tuples(PLACES, st.sampled_from(["", ".4", ".0,2", ".x"])).map("".join),
    PLACES,
    AMOUNTS,
).map(lambda parts: ":".join(part for part in parts if part))
RATIOS = WORDS | st.tuples(PLACES, PLACES, AMOUNTS).map(lambda parts: "{}:{}={}".format(*parts))
LISTS = WORDS | st.lists(PLACES, max_size=3).map(",".join)
PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=8,
)


@dataclass(frozen=True)
class Target:
    """Something that reads: inputs for it, how it reads one in a folder, and how it refuses.

    What reads files also reads any bytes, of which `whole` is an example.
    """

    inputs: st.SearchStrategy[Any]
    read: Callable[[Any, Path], object]
    refuses: type[Exception] | tuple[type[Exception], ...] = ValueError
    read_bytes: Callable[[bytes, Path], object] | None = None
    whole: Callable[[], bytes] = bytes


class EndlessRefusalError(AssertionError):
    """A refusal that says nothing, or more than anybody reads."""


def attempt(
    target: Target, value: Any, folder: Path, read: Callable[[Any, Path], object] | None = None
) -> str:
    """How an input was refused, in words without its own; empty where it was read."""
    try:
        (read or target.read)(value, folder)
    except target.refuses as refusal:
        words = str(refusal)
        if not 0 < len(words) < MOST_WORDS:
            raise EndlessRefusalError(f"a refusal of {len(words)} characters") from refusal
        return f"{type(refusal).__name__}: {_kind(words.replace(str(folder), ''))}"
    return ""


def _kind(words: str) -> str:
    """The beginning of a message without what came: names in quotes, numbers, hashes, places."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"|[0-9a-f]{12,}|\d+(\.\d+)?|[^\x20-\x7e]", "…", words)
    return " ".join(plain.split())[:60]


def nearly(*names: str) -> st.SearchStrategy[bytes]:
    """JSON with some of these fields, of any kind, or bytes that are nearly JSON."""
    some = st.dictionaries(st.sampled_from(names), PLAIN, max_size=len(names)).map(json.dumps)
    cut = some.map(lambda text: text[: len(text) // 2])
    return (some | cut | st.just("[" * 2_000)).map(str.encode)


NUMBERS = [b"\0", b"\xff", b"\xff" * 8, b"\0" * 8, b"\x7f" + b"\xff" * 3, b"1"]
STEPS = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.booleans(),
        st.sampled_from(["set", "leave out", "put in", "double", "cut"]),
        st.sampled_from(NUMBERS),
    ),
    min_size=1,
    max_size=4,
)


def changed(blob: bytes, steps: list[tuple[float, bool, str, bytes]]) -> bytes:
    """A file with some bytes changed, put in, left out or doubled, or cut, mostly near an end."""
    for place, from_end, what, number in steps:
        at = int(place**4 * len(blob))
        at = len(blob) - at if from_end else at
        match what:
            case "set":
                blob = blob[:at] + number + blob[at + len(number) :]
            case "leave out":
                blob = blob[:at] + blob[at + len(number) :]
            case "put in":
                blob = blob[:at] + number + blob[at:]
            case "double":
                blob = blob[:at] + blob[at : at + 40] * 2 + blob[at + 40 :]
            case "cut":
                blob = blob[:at]
    return blob


def file(read: Callable[[Path], object], name: str = "file") -> Callable[[Any, Path], object]:
    """Write an input to a file and read that."""

    def written(blob: bytes, folder: Path) -> object:
        (folder / name).write_bytes(blob)
        return read(folder / name)

    return written


def json_of(
    names: str, read: Callable[[Path], object], refuses: type[Exception] = ValueError
) -> Target:
    """A target that reads JSON with fields of these names."""
    fields, whole = names.split(), json.dumps(dict.fromkeys(names.split(), "A")).encode()
    return Target(nearly(*fields), file(read), refuses, file(read), lambda: whole)


def mutated(
    whole: Callable[[], bytes],
    read: Callable[[Path], object],
    refuses: type[Exception] = ValueError,
    *,
    name: str = "file",
) -> Target:
    """A target that reads files; its inputs are changes of a whole one."""
    reader = file(read, name)
    return Target(
        STEPS, lambda steps, at: reader(changed(whole(), steps), at), refuses, reader, whole
    )


def _run_or_plan(path: Path) -> None:
    path.with_name(RUN).write_bytes(path.read_bytes())
    for read in (lambda: read_plan_file(path), lambda: read_run(path.parent)):
        read()


def _seal(path: Path) -> None:
    path.with_name(SEAL).write_bytes(path.read_bytes())
    raise StoreError(problems(path.parent, "f" * 64)[0])


def _number(text: str, folder: Path) -> None:
    assert set(parse_numbers(text, limit=20)) <= set(range(20))


def _request(text: str, folder: Path) -> None:
    request = parse_request(text, limit=20)
    assert request.above != request.below
    assert request.ratio > 0


def _settings(given: tuple[str, dict[int, str]], folder: Path) -> None:
    name, words = given
    study = find_study(name)
    options = options_of(study.Settings)
    # The command always says a model.
    values: dict[str, Any] = {"model": "embedded"} if "model" in study.Settings.model_fields else {}
    for number, text in words.items():
        option = options[number % len(options)]
        values[option.field] = text.split(",") if option.several else text
    settings_from(study.Settings, values, 12)


@cache
def table() -> bytes:
    return encode_rows([Mean("test", 0.5, True)] * 3, Mean, study="toy", unit="test-0")


@cache
def tensors() -> bytes:
    from safetensors.numpy import save

    return save({"draws": np.arange(8.0), "more": np.arange(3, dtype=np.float32)})


@cache
def unit() -> bytes:
    """A unit as it lies in an object store."""
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w", zipfile.ZIP_STORED) as archive:
        for name, blob in {"means.parquet": table(), "seal.json": b"{}"}.items():
            archive.writestr(zipfile.ZipInfo(name), blob)
    return whole.getvalue()


def _unit(path: Path) -> None:
    with tempfile.TemporaryDirectory(dir=path.parent) as place:
        try:
            unpack(path, Path(place))
        except NO_ARCHIVE as error:
            raise StoreError(f"no archive: {error!r}") from error


@cache
def capture() -> tuple[dict[str, Any], bytes]:
    """The manifest of a small capture, and its tensors."""
    from finite_calculus.checkpoints import load
    from finite_calculus.models import attach
    from finite_calculus.models.storage import capture_files

    model, tokenizer = load("tiny-qwen2")
    with attach(model, tokenizer=tokenizer) as instrument:
        taken = instrument.capture(range(3, 9), answer=3, versus=5, layers=[1])
    files = capture_files(taken, "file.safetensors")
    return json.loads(files["file.json"]), files["file.safetensors"]


def _capture(given: tuple[list[Any] | None, dict[str, Any], list[int]], folder: Path) -> None:
    """A changed manifest, or changed tensors, each with hashes that agree."""
    from finite_calculus.models.storage import load_capture

    steps, changes, place = given
    manifest, whole = capture()
    blob = whole if steps is None else changed(whole, steps)
    layer = {**manifest["layers"][0], **{f"{n}": changes[n] for n in changes if n not in manifest}}
    own = {k: v for k, v in {**manifest, **changes, "layers": [layer]}.items() if k != "self"}
    if place:
        own["layers"] = place
    own["sha256"] = hashlib.sha256(blob).hexdigest()
    (folder / "file.json").write_text(json.dumps(own))
    (folder / "file.safetensors").write_bytes(blob)
    load_capture(folder / "file.safetensors")


@cache
def llama2c() -> bytes:
    from tests.helpers.llama2c import tensors, written

    with tempfile.TemporaryDirectory() as place:
        return written(Path(place) / "model.bin", tensors(np.random.default_rng(1))).read_bytes()


@cache
def gguf() -> bytes:
    from tests.helpers.gguf_file import weights, written

    with tempfile.TemporaryDirectory() as place:
        return written(Path(place) / "model.gguf", weights()).read_bytes()


def _converted(module: str) -> Callable[[Path], None]:
    def convert(path: Path) -> None:
        import importlib

        with tempfile.TemporaryDirectory(dir=path.parent) as place:
            importlib.import_module(f"finite_calculus.checkpoints.{module}").convert(
                path, Path(place)
            )

    return convert


JOINT = st.sampled_from(
    ["layers", "kind", "query_heads", "scale", "rotary", "margin", "baseline", "model"]
)
TARGETS: dict[str, Target] = {
    "edits": Target(EDITS, lambda text, _: parse_edit(text, 20, find=lambda _: (1,))),
    "tokens and layers": Target(LISTS, _number),
    "ratios": Target(RATIOS, _request),
    "families (--odds)": Target(
        WORDS | st.lists(AMOUNTS, max_size=3).map(",".join),
        lambda text, _: strengths(text, None),
        typer.BadParameter,
    ),
    "settings of studies": Target(
        st.tuples(
            st.sampled_from(sorted(study_names())),
            st.dictionaries(st.integers(0, 40), WORDS, max_size=4),
        ),
        _settings,
    ),
    "prompt files": json_of("prompt answer versus name edits surprise", read_prompts),
    "cases to repair": json_of("message reply chat target functions inputs checks", read_case),
    "configurations": json_of(
        "model_type auto_map quantization_config", read_config, CheckpointError
    ),
    "weight indices": json_of("weight_map metadata", parts_of, CheckpointError),
    "runs and plans": json_of(
        "study fingerprint identity started units stage manifest", _run_or_plan
    ),
    "seals": json_of("unit fingerprint sha256 dropped weights seconds", _seal),
    "tables": mutated(table, read_bounded),
    "tensors of a replay": mutated(
        tensors, lambda path: _load(path.parent), name="captures.safetensors"
    ),
    "units of an object store": mutated(unit, _unit),
    "captures": Target(
        st.tuples(
            st.none() | STEPS,
            st.dictionaries(JOINT, PLAIN, max_size=3),
            st.just([]) | st.lists(st.integers(-1, 2), max_size=2),
        ),
        _capture,
    ),
    "llama2.c headers": mutated(llama2c, _converted("llama2c"), CheckpointError),
    "GGUF headers": mutated(gguf, _converted("from_gguf"), CheckpointError),
}  # fmt: skip
