"""A capture that was changed in whatever place is refused with a ValueError that says so."""

import json
import random

import pytest

from finite_calculus.models import attach, load_capture, save_capture
from finite_calculus.models.storage import _hash_of


@pytest.fixture
def path(tiny, ids, tmp_path):
    with attach(tiny("qwen2")) as instrument:
        capture = instrument.capture(ids, answer=3, versus=5, layers=[1])
    return save_capture(capture, tmp_path / "capture.safetensors")


def test_any_flipped_or_missing_byte_is_refused(path):
    draw, manifest = random.Random(22), path.with_suffix(".json")
    for target in (path, manifest):
        whole = target.read_bytes()
        for _ in range(40):
            place = draw.randrange(len(whole))
            flipped = bytearray(whole)
            flipped[place] ^= 1 << draw.randrange(8)
            for blob in (bytes(flipped), whole[:place]):
                target.write_bytes(blob)
                if target == manifest and _means_the_same(blob, whole):
                    continue
                with pytest.raises(ValueError, match=r"must|capture"):
                    load_capture(path)
        target.write_bytes(whole)
    load_capture(path)


def _means_the_same(blob: bytes, whole: bytes) -> bool:
    """A space may become another one."""
    try:
        return json.loads(blob) == json.loads(whole)
    except (ValueError, UnicodeDecodeError):
        return False


@pytest.mark.parametrize("sealed", [True, False], ids=["with its hash", "without"])
@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.pop("sha256"),
        lambda m: m.pop("layers"),
        lambda m: m.pop("model"),
        lambda m: m["margin"].pop("answer"),
        lambda m: m["layers"][0].pop("layer"),
        lambda m: m["layers"][0].update(surprise=1),
        lambda m: m.update(layers=5),
        lambda m: m.update(margin=[]),
        lambda m: m.update(sha256=7),
        lambda m: m.update(curvature=[1]),
    ],
)
def test_a_manifest_that_is_made_to_fit_is_refused_if_it_is_no_capture(path, change, sealed):
    manifest = path.with_suffix(".json")
    content = json.loads(manifest.read_text())
    del content["self"]
    change(content)
    own = {"self": _hash_of(content)} if sealed else {}
    manifest.write_text(json.dumps({**content, **own}))
    with pytest.raises(ValueError, match="must"):
        load_capture(path)


@pytest.mark.parametrize("text", ["", "[]", "5", "{}", "[" * 100_000, '{"format": NaN}'])
def test_what_is_no_manifest_is_refused(path, text):
    path.with_suffix(".json").write_text(text)
    with pytest.raises(ValueError, match="manifest"):
        load_capture(path)


def test_a_manifest_that_is_no_json_or_was_changed_is_named(path):
    manifest = path.with_suffix(".json")
    content = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**content, "model": "another"}))
    with pytest.raises(ValueError, match="that it names; it has another one"):
        load_capture(path)
    manifest.write_text("{")
    with pytest.raises(ValueError, match=r"The manifest of capture\.safetensors must be JSON"):
        load_capture(path)
