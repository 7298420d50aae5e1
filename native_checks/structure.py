"""Checks of what is installed: the attention function, its mask, foreign patches, arithmetic."""

import torch
from torch import Tensor

from finite_calculus.models.session import AttentionCall, Session, active, by_module, keep_call
from finite_calculus.models.support import Site, foreign_patches
from native_checks.bench import Bench
from native_checks.records import GateCheck, counted


def attention_is_installed(bench: Bench) -> GateCheck:
    """Every layer's attention runs through the instrument, once per forward pass."""
    sites, calls = bench.instrument.support.sites, []

    def observe(site: Site, call: AttentionCall, output: Tensor) -> Tensor:
        calls.append(site.layer)
        return output

    with torch.no_grad(), active(Session(by_module(sites), keep_call, observe)):
        bench.instrument.model(input_ids=bench.ids.unsqueeze(0), use_cache=False)
    missed = sum(calls.count(site.layer) != 1 for site in sites)
    return counted(
        "attention installed", missed, f"layers of {len(sites)} that did not pass exactly once"
    )


def no_foreign_patches(bench: Bench) -> GateCheck:
    """Eager functions, forwards and registered functions are the library's own."""
    patches = foreign_patches(bench.instrument.support.sites)
    return counted(
        "no foreign patches", len(patches), "; ".join(patches) or "all functions are at home"
    )


def attention_is_causal(bench: Bench) -> GateCheck:
    """Changing the last token leaves the logits of all earlier ones as they are, bit for bit."""
    ids = bench.ids.unsqueeze(0)
    other = ids.clone()
    other[0, -1] = bench.ids[0] if bench.ids[0] != bench.ids[-1] else (bench.ids[-1] + 1) % 2
    with torch.no_grad():
        first = bench.instrument.model(input_ids=ids, use_cache=False).logits[0, :-1]
        second = bench.instrument.model(input_ids=other, use_cache=False).logits[0, :-1]
    # Experts group rows by their tokens, so earlier rows may be summed in another order.
    allowed = 0.0
    if _has_experts(bench):
        allowed = 64 * torch.finfo(torch.float32).eps * float(first.abs().max())
    changed = int(((first - second).abs() > allowed).any(-1).sum())
    return counted("attention is causal", changed, "earlier tokens that see a later one")


def arithmetic_is_stated(bench: Bench) -> GateCheck:
    """No setting makes products less precise than the model's weights say, or sums than float32."""
    products = torch.backends.cuda.matmul
    device = bench.ids.device.type
    reduced = [
        torch.get_float32_matmul_precision() != "highest",
        torch.is_autocast_enabled(device),
        *(
            device == "cuda" and getattr(products, setting, False)
            for setting in (
                "allow_tf32",
                "allow_fp16_accumulation",
                "allow_fp16_reduced_precision_reduction",
                "allow_bf16_reduced_precision_reduction",
            )
        ),
    ]
    return counted("arithmetic is as stated", sum(reduced), "settings that make products coarser")


def _has_experts(bench: Bench) -> bool:
    return any("experts" in name for name, _ in bench.instrument.model.named_modules())
