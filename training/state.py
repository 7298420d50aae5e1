"""The state of a training in one file, from which an interrupted run goes on as if unbroken."""

import json
from dataclasses import asdict
from pathlib import Path

import safetensors
import safetensors.torch
import torch
from transformers import Qwen2ForCausalLM

from training.settings import Settings, TrainingProgress


def save_state(
    out: Path,
    settings: Settings,
    model: Qwen2ForCausalLM,
    optimizer: torch.optim.Optimizer,
    progress: TrainingProgress,
    history: list[dict],
) -> None:
    """Weights, moments and progress in one file, put in place by a rename."""
    tensors = {}
    for name, weight in model.named_parameters():
        tensors[f"weight.{name}"] = weight.detach()
        for moment in ("exp_avg", "exp_avg_sq"):
            tensors[f"{moment}.{name}"] = optimizer.state[weight][moment]
    about = {
        "settings": json.dumps(asdict(settings)),
        "progress": json.dumps(asdict(progress)),
        "history": json.dumps(history),
    }
    partial = out / "state.partial"
    safetensors.torch.save_file(tensors, partial, metadata=about)
    partial.replace(out / "state.safetensors")


def resume(
    out: Path, settings: Settings, model: Qwen2ForCausalLM, optimizer: torch.optim.Optimizer
) -> tuple[TrainingProgress, list[dict]]:
    """The saved state, or a fresh one; a state of other settings is refused."""
    path = out / "state.safetensors"
    out.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        return TrainingProgress(), []
    with safetensors.safe_open(path, "pt") as saved:
        about = saved.metadata()
        if json.loads(about["settings"]) != json.loads(json.dumps(asdict(settings))):
            raise SystemExit(f"{path} was trained with {about['settings']}; choose another --out.")
        progress = TrainingProgress(**json.loads(about["progress"]))
        for name, weight in model.named_parameters():
            weight.data.copy_(saved.get_tensor(f"weight.{name}"))
            moments = {m: saved.get_tensor(f"{m}.{name}") for m in ("exp_avg", "exp_avg_sq")}
            optimizer.state[weight] = {"step": torch.tensor(float(progress.step)), **moments}
    print(f"Going on at step {progress.step} of {settings.steps}.", flush=True)
    return progress, json.loads(about["history"])
