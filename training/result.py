"""The finished model with its tokenizer and training record, as the package carries them."""

import hashlib
import json
import platform
import shutil
from dataclasses import asdict
from pathlib import Path

import numpy as np
import safetensors
import tokenizers
import torch
import transformers
from transformers import Qwen2ForCausalLM

from finite_calculus.checkpoints import vocabulary
from finite_calculus.tasks import synthetic as tasks
from training.data import Encoder
from training.held_out import HELD_OUT, held_out
from training.settings import Settings, TrainingProgress

PACKAGE = Path(tasks.__file__).parent / "embedded"


def finish(
    out: Path,
    settings: Settings,
    model: Qwen2ForCausalLM,
    encoder: Encoder,
    progress: TrainingProgress,
    history: list[dict],
) -> None:
    """Model, tokenizer and training record, as the package carries them."""
    final = out / "embedded.partial"
    shutil.rmtree(final, ignore_errors=True)
    model.save_pretrained(final)
    vocabulary.fast_tokenizer(settings.context).save_pretrained(final)
    accuracies = held_out(model, encoder)
    record = {
        "what": "A small Qwen2 trained by `python -m training` on synthetic tasks, "
        "from random weights with two layers prepared for retrieval (see training/model.py).",
        "sha256": {
            path.name: hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(final.iterdir())
        },
        "bytes": (final / "model.safetensors").stat().st_size,
        "parameters": sum(p.numel() for p in model.parameters()),
        "settings": asdict(settings),
        "steps": progress.step,
        "training_seconds": round(progress.seconds, 1),
        "threads": torch.get_num_threads(),
        "held_out_seed": HELD_OUT,
        "paper_seed": tasks.PAPER_SEED,
        "held_out": accuracies,
        "versions": {
            "python": platform.python_version(),
            **{
                m.__name__: m.__version__
                for m in (torch, transformers, tokenizers, safetensors, np)
            },
        },
        "history": history,
    }
    (final / "training.json").write_text(json.dumps(record, indent=1) + "\n")
    shutil.rmtree(out / "embedded", ignore_errors=True)
    final.rename(out / "embedded")
    for row in accuracies:
        print(row)
    print(f"Done: {out / 'embedded'}, sha256 {record['sha256']['model.safetensors']}")


def install(out: Path) -> None:
    """Copy the finished model into the package."""
    PACKAGE.mkdir(exist_ok=True)
    for path in sorted((out / "embedded").iterdir()):
        shutil.copyfile(path, PACKAGE / path.name)
        print(f"{PACKAGE / path.name}: {path.stat().st_size} bytes")
