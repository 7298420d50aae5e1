"""Captures on disk: tensors as safetensors, everything else in a JSON manifest with their sha256.

A loaded capture predicts like the one that was saved, bit for bit and without the model.
"""

import dataclasses
import hashlib
import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load, save
from torch import Tensor

from finite_calculus.models.capture import Capture
from finite_calculus.models.curvature import Curvature
from finite_calculus.models.layer import LayerCapture
from finite_calculus.models.margins import Margin
from finite_calculus.rotary import Rotary

FORMAT = 2


def save_capture(capture: Capture, path: str | os.PathLike[str]) -> Path:
    """Write `path` (.safetensors) and its manifest (.json) beside it; returns the tensor file."""
    target = _tensor_path(path)
    for name, blob in capture_files(capture, target.name).items():
        _write(target.with_name(name), blob)
    return target


def capture_files(capture: Capture, name: str) -> dict[str, bytes]:
    """The tensor file of a capture under a name, and its manifest, as bytes."""
    tensors: dict[str, Tensor] = {"ids": capture.ids, "logits": capture.logits}
    layers = []
    for layer in capture.layers:
        numbers, own = _split(layer)
        tensors |= {f"layers.{layer.layer}.{name}": tensor for name, tensor in own.items()}
        layers.append(numbers)
    bent, own = _split_curvature(capture.curvature)
    tensors |= own
    # Layers share their frequencies; safetensors stores no tensor that shares memory.
    blob = save({name: tensor.clone().contiguous() for name, tensor in tensors.items()})
    manifest = {
        "format": FORMAT,
        "sha256": hashlib.sha256(blob).hexdigest(),
        "model": capture.model,
        "margin": dataclasses.asdict(capture.margin),
        "baseline": capture.baseline,
        "layers": layers,
        "curvature": bent,
    }
    text = json.dumps({**manifest, "self": _hash_of(manifest)}, indent=1)
    return {name: blob, str(Path(name).with_suffix(".json")): text.encode()}


def load_capture(path: str | os.PathLike[str]) -> Capture:
    """Read a capture; refuses files that were changed, cut off or are of something else (ValueError)."""
    target = _tensor_path(path)
    for needed in (target, target.with_suffix(".json")):
        if not needed.is_file():
            raise FileNotFoundError(
                f"A capture needs its tensors and its manifest; {needed} is not there. "
                f"Save it again with save_capture."
            )
    try:
        manifest = json.loads(target.with_suffix(".json").read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"The manifest of {target.name} must be JSON: {error}.") from None
    if not isinstance(manifest, dict) or manifest.get("format") != FORMAT:
        manifest = manifest if isinstance(manifest, dict) else {}
        raise ValueError(
            f"The manifest must have format {FORMAT}; got {manifest.get('format')!r}. "
            f"It was written by another version: capture again."
        )
    # Captures of before it was there have no hash of their manifest.
    own = manifest.pop("self", None)
    if own is not None and own != _hash_of(manifest):
        raise ValueError(
            f"The manifest of {target.name} must have the sha256 {str(own)[:16]}… that it names; it has "
            f"another one. It was changed: capture again."
        )
    blob = target.read_bytes()
    digest, sealed = hashlib.sha256(blob).hexdigest(), str(manifest.get("sha256"))
    if digest != sealed:
        raise ValueError(
            f"The sha256 of {target.name} must be {sealed[:16]}…; it is {digest[:16]}…. "
            f"The file was changed or cut off: capture again."
        )
    try:
        return _capture(manifest, load(blob))
    except Exception as error:  # of safetensors and of parts that may be missing or of any kind
        raise ValueError(
            f"{target.name} and its manifest must be a capture, whole; they are not "
            f"({type(error).__name__}: {error}). Capture again."
        ) from error


def _hash_of(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _capture(manifest: dict[str, Any], tensors: dict[str, Tensor]) -> Capture:
    return Capture(
        model=manifest["model"],
        ids=tensors["ids"],
        margin=Margin(**manifest["margin"]),
        baseline=manifest["baseline"],
        logits=tensors["logits"],
        layers=tuple(_join(numbers, tensors) for numbers in manifest["layers"]),
        curvature=_join_curvature(manifest.get("curvature"), tensors),
    )


def _split(layer: LayerCapture) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Numbers and words of a layer, for the manifest, and its tensors."""
    numbers: dict[str, Any] = {}
    tensors: dict[str, Tensor] = {}
    for item in dataclasses.fields(layer):
        value = getattr(layer, item.name)
        if isinstance(value, Tensor):
            tensors[item.name] = value
        elif isinstance(value, Rotary):
            tensors["frequencies"] = value.frequencies
            names = ("head_width", "layout", "start")
            numbers["rotary"] = {name: getattr(value, name) for name in names}
        else:
            numbers[item.name] = value
    return numbers, tensors


def _join(numbers: dict[str, Any], tensors: dict[str, Tensor]) -> LayerCapture:
    start = f"layers.{numbers['layer']}."
    own: dict[str, Any] = {
        name.removeprefix(start): tensor
        for name, tensor in tensors.items()
        if name.startswith(start)
    }
    frequencies = own.pop("frequencies", None)
    fields = {**numbers, **own}
    if frequencies is not None:
        fields["rotary"] = Rotary(frequencies, **numbers["rotary"])
    return LayerCapture(**fields)


def _split_curvature(
    curvature: Curvature | None,
) -> tuple[dict[str, Any] | None, dict[str, Tensor]]:
    """Numbers and tensors of the second order; None where it was not captured."""
    if curvature is None:
        return None, {}
    fields = {item.name: getattr(curvature, item.name) for item in dataclasses.fields(curvature)}
    tensors = {name: value for name, value in fields.items() if isinstance(value, Tensor)}
    numbers = {name: value for name, value in fields.items() if name not in tensors}
    return numbers, {f"curvature.{name}": tensor for name, tensor in tensors.items()}


def _join_curvature(numbers: dict[str, Any] | None, tensors: dict[str, Tensor]) -> Curvature | None:
    if numbers is None:
        return None
    start = "curvature."
    own: dict[str, Any] = {
        k.removeprefix(start): tensor for k, tensor in tensors.items() if k.startswith(start)
    }
    plain = {name: tuple(v) if isinstance(v, list) else v for name, v in numbers.items()}
    return Curvature(**plain, **own)


def _tensor_path(path: str | os.PathLike[str]) -> Path:
    target = Path(path)
    if target.suffix != ".safetensors":
        raise ValueError(
            f"`path` must end in .safetensors; got {target.name!r}. The manifest is put beside it."
        )
    return target


def _write(target: Path, blob: bytes) -> None:
    """Whole or not at all: a temporary file, then a rename."""
    temporary = target.with_name(target.name + ".part")
    temporary.write_bytes(blob)
    os.replace(temporary, target)


def same_tensors(first: Capture, second: Capture) -> bool:
    """Whether two captures hold the same bits."""
    pairs = zip(first.layers, second.layers, strict=True)
    bent = [_split_curvature(capture.curvature) for capture in (first, second)]
    if bent[0][0] != bent[1][0] or any(
        not torch.equal(tensor, bent[1][1][name]) for name, tensor in bent[0][1].items()
    ):
        return False
    return torch.equal(first.ids, second.ids) and all(
        _split(a)[0] == _split(b)[0]
        and all(torch.equal(x, _split(b)[1][name]) for name, x in _split(a)[1].items())
        for a, b in pairs
    )
