"""The rotary operator of each layer, probed on the model and not assumed.

With a prompt of one token attention has a single key, so the features below do not depend on the
position and keys captured at positions p and p + δ differ by the native rotation alone. Frequencies
stored in the model are candidates; a candidate and a layout are accepted if the core's rotation
carries every captured key to every other within the float32 error of the native one. A layer whose
keys do not move has no rotary part.
"""

from dataclasses import dataclass
from typing import get_args

import torch
from torch import Tensor
from transformers import PreTrainedModel

from finite_calculus.models.layer import stored_copy
from finite_calculus.models.precision import FLOAT32, Precision, precision_of
from finite_calculus.models.session import AttentionCall, Session, active, by_module, keep_call
from finite_calculus.models.support import Site, UnsupportedModelError, require_finite_run
from finite_calculus.models.words import short_repr
from finite_calculus.rotary import Layout, Rotary, rotate, split_planes

_POSITIONS = (1, 6, 2, 25)
_TINY = torch.finfo(torch.float64).tiny
# Two native rotations: cosine, sine, scaling, two products and a sum each, on either side.
_ROUNDINGS = 24


@dataclass(frozen=True, eq=False)
class ProbedRotary:
    """The rotary operator of one layer, its key scaling (YaRN, LongRoPE), and the probe's figures.

    `limit` is the position at which the model would switch frequencies (dynamic, LongRoPE), if any;
    `error` and `bound` are relative to the norm of the keys.
    """

    __repr__ = short_repr

    layer: int
    rotary: Rotary | None
    scaling: float
    limit: int | None
    error: float
    bound: float


def probe_rotary(model: PreTrainedModel, sites: tuple[Site, ...]) -> tuple[ProbedRotary, ...]:
    """Probe every layer; raises if neither a stored frequency nor rest explains its keys."""
    candidates, precision = stored_frequencies(model), precision_of(model.dtype)
    if not candidates:
        return tuple(ProbedRotary(site.layer, None, 1.0, None, 0.0, 0.0) for site in sites)
    limit = frequency_switch(model)
    runs = [keys_at(model, sites, position) for position in _POSITIONS]
    return tuple(
        _probe(site, candidates, limit, [run[site.layer] for run in runs], precision)
        for site in sites
    )


def stored_frequencies(model: PreTrainedModel) -> list[tuple[Tensor, float]]:
    """Frequency buffers of the model with the scaling of cosine and sine that belongs to each."""
    frequencies = []
    for module in model.modules():
        for name, buffer in module.named_buffers(recurse=False):
            if name.endswith("inv_freq") and "original" not in name:
                factor = getattr(module, name.removesuffix("inv_freq") + "attention_scaling", 1.0)
                frequencies.append((buffer.detach().reshape(-1).float().cpu(), float(factor)))
    return frequencies


def frequency_switch(model: PreTrainedModel) -> int | None:
    """The length beyond which dynamic or LongRoPE scaling changes the frequencies, if any."""
    config = model.config.get_text_config(decoder=True)
    rope = getattr(config, "rope_parameters", None) or {}
    parameters = [rope, *(v for v in rope.values() if isinstance(v, dict))]
    if not any(p.get("rope_type") in ("dynamic", "longrope") for p in parameters):
        return None
    original = [p.get("original_max_position_embeddings") for p in parameters]
    original.append(getattr(config, "original_max_position_embeddings", None))
    lengths = [int(length) for length in original if length]
    return min([*lengths, int(config.max_position_embeddings)])


def keys_at(
    model: PreTrainedModel, sites: tuple[Site, ...], position: int
) -> dict[int, tuple[Tensor, Tensor]]:
    """Key and value of every layer for a one-token prompt at a position."""
    pairs: dict[int, tuple[Tensor, Tensor]] = {}

    def observe(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        pair = (call.key[0, :, -1], call.value[0, :, -1])
        pairs[site.layer] = (stored_copy(pair[0]), stored_copy(pair[1]))
        return output

    device = next(model.parameters()).device
    ids = torch.tensor([[min(7, model.config.get_text_config().vocab_size - 1)]], device=device)
    where = torch.tensor([[position]], device=device)
    with torch.no_grad(), active(Session(by_module(sites), keep_call, observe)):
        model(input_ids=ids, position_ids=where, use_cache=False)
    for key, _ in pairs.values():
        require_finite_run(model, "keys", key)
    return pairs


def _probe(
    site: Site,
    candidates: list[tuple[Tensor, float]],
    limit: int | None,
    pairs: list[tuple[Tensor, Tensor]],
    precision: Precision,
) -> ProbedRotary:
    if all(torch.equal(pairs[0][0], key) for key, _ in pairs):
        return ProbedRotary(site.layer, None, 1.0, limit, 0.0, 0.0)
    width = pairs[0][0].shape[-1]
    attempts: list[tuple[float, ProbedRotary]] = []
    for frequencies, factor in candidates:
        rest = width - 2 * frequencies.shape[0]
        # A part of a key that rotates lies at its beginning, or after the latent part.
        for start in {0, rest} if rest >= 0 else ():
            for layout in get_args(Layout):
                rotary = Rotary(frequencies, width, layout, start)
                ratio, error, bound = _discrepancy(rotary, pairs, precision)
                probed = ProbedRotary(site.layer, rotary, factor, limit, error, bound)
                attempts.append((ratio, probed))
    ratio, best = min(attempts, key=lambda item: item[0], default=(torch.inf, None))
    if best is not None and ratio <= 1:
        return best
    raise UnsupportedModelError(
        f"The rotation of keys in layer {site.layer} ({site.name}) must follow stored frequencies; "
        f"the best of {len(attempts)} candidates is off by {ratio:.1e} times the {precision.name} bound. "
        f"Positional edits would be wrong: this family is not supported."
    )


def _discrepancy(
    rotary: Rotary, pairs: list[tuple[Tensor, Tensor]], precision: Precision
) -> tuple[float, float, float]:
    """How far rotated keys are from the captured ones, plane by plane.

    Returns the largest distance in units of its bound, the largest distance relative to the norm of
    the key, and the largest relative bound. On each plane the float32 angle p·ω is off by up to p·ω·u
    on either side; in half precision what a rotation stores is rounded once more. Where attention has a sink,
    the features of the two runs differ by rounding, which the values, that do not rotate, show.
    """
    base, base_value = pairs[0]
    worst, relative, largest = 0.0, 0.0, 0.0
    for (key, value), position in zip(pairs[1:], _POSITIONS[1:], strict=True):
        apart = rotate(rotary, base.double(), position - _POSITIONS[0]) - key.double()
        norm = key.double().norm(dim=-1, keepdim=True)
        drift = 16 * float(((value - base_value).double().norm(dim=-1) / value.norm(dim=-1)).max())
        angles = 2 * (position + _POSITIONS[0]) * rotary.frequencies.double()
        rounding = FLOAT32.unit * (_ROUNDINGS + angles)
        if precision.half:
            rounding = rounding + precision.unit * _ROUNDINGS
        allowed = _plane_norms(rotary, key.double()) * rounding + drift * norm
        ratios = _plane_norms(rotary, apart) / allowed.clamp(min=_TINY)
        still = torch.cat(
            [apart[..., : rotary.start], apart[..., rotary.start + 2 * rotary.planes :]], -1
        )
        rest = still.abs() / (drift * norm).clamp(min=_TINY)
        worst = max(worst, float(torch.cat([ratios, rest], -1).max()))
        relative = max(relative, float((apart.norm(dim=-1, keepdim=True) / norm).max()))
        largest = max(largest, float(rounding.max()) + drift)
    return worst, relative, largest


def _plane_norms(rotary: Rotary, vectors: Tensor) -> Tensor:
    return torch.hypot(*split_planes(rotary, vectors))
