"""The training itself: gradients of a batch, the rate, the curriculum."""

import functools
import math
import time
from pathlib import Path

import numpy as np
import torch
from transformers import Qwen2ForCausalLM

from training.data import Encoder, Row, example
from training.model import build_model
from training.result import finish
from training.settings import Settings
from training.state import resume, save_state


def losses(
    model: Qwen2ForCausalLM, ids: torch.Tensor, answers: torch.Tensor, padding: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Summed loss on answers, summed loss on the rest of the text, and the number of right answers."""
    hidden = model.model(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
    targets, is_answer, is_text = ids[:, 1:], answers[:, 1:], ~(answers | padding)[:, 1:]
    logits = model.lm_head(hidden[is_answer])
    right = int((logits.argmax(-1) == targets[is_answer]).sum())
    entropy = functools.partial(torch.nn.functional.cross_entropy, reduction="sum")
    text_loss = entropy(model.lm_head(hidden[is_text]), targets[is_text])
    return entropy(logits, targets[is_answer]), text_loss, right


def backward(
    model: Qwen2ForCausalLM, encoder: Encoder, rows: list[Row], settings: Settings
) -> tuple[float, float, float]:
    """Gradients of one batch, in parts of like length; returns mean losses and the answers' accuracy."""
    answers = sum(is_answer for row in rows for _, is_answer in row)
    # Every answer is one token, and the first token of a row is not predicted.
    texts = sum(map(encoder.length, rows)) - answers - len(rows)
    rows = sorted(rows, key=encoder.length)
    total = np.zeros(3)
    for start in range(0, len(rows), settings.part):
        part = encoder.batch(rows[start : start + settings.part])
        answer_loss, text_loss, right = losses(model, *part)
        (answer_loss / answers + settings.text_weight * text_loss / texts).backward()
        total += (answer_loss.item() / answers, text_loss.item() / texts, right / answers)
    return float(total[0]), float(total[1]), float(total[2])


def rate_at(step: int, settings: Settings) -> float:
    """Linear warm-up, then a cosine down to a small share of the top rate."""
    if step < settings.warmup:
        return settings.rate * (step + 1) / settings.warmup
    progress = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    share = settings.final_rate + (1 - settings.final_rate) * 0.5 * (
        1 + math.cos(math.pi * progress)
    )
    return settings.rate * share


def train(settings: Settings, out: Path, *, save_every: int, report_every: int) -> None:
    """Run, or go on with, one training; leaves the model in `out` when all steps are done."""
    encoder = Encoder()
    model = build_model(settings, encoder.tokenizer)
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() <= 1]
    groups = [
        {"params": matrices, "weight_decay": settings.weight_decay},
        {"params": vectors, "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=settings.rate, betas=(0.9, 0.98), fused=True)
    progress, history = resume(out, settings, model, optimizer)
    model.train()
    begun, begun_step, before = time.perf_counter(), progress.step, progress.seconds
    while progress.step < settings.steps:
        rng = np.random.default_rng(np.random.SeedSequence([settings.seed, 1, progress.step]))
        records = settings.records[progress.stage]
        final = progress.stage == len(settings.records) - 1
        rows = [example(rng, records, final) for _ in range(settings.batch)]
        for group in optimizer.param_groups:
            group["lr"] = rate_at(progress.step, settings)
        optimizer.zero_grad(set_to_none=True)
        answer_loss, text_loss, accuracy = backward(model, encoder, rows, settings)
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        progress.step += 1
        progress.accuracy = 0.95 * progress.accuracy + 0.05 * accuracy
        progress.seconds = before + time.perf_counter() - begun
        waited = progress.step - progress.stage_start
        if progress.accuracy > settings.pass_mark and waited >= 40 and not final:
            progress.stage, progress.stage_start, progress.accuracy = (
                progress.stage + 1,
                progress.step,
                0.0,
            )
        if progress.step % report_every == 0:
            line = {
                "step": progress.step,
                "records": records,
                "answer_loss": round(answer_loss, 4),
                "text_loss": round(text_loss, 4),
                "accuracy": round(progress.accuracy, 4),
            }
            history.append(line)
            speed = (progress.step - begun_step) / (time.perf_counter() - begun)
            minutes = (settings.steps - progress.step) / speed / 60
            print(line, f"{speed:.2f} steps/s, {minutes:.1f} min left", flush=True)
        if progress.step % save_every == 0 or progress.step == settings.steps:
            save_state(out, settings, model, optimizer, progress, history)
    finish(out, settings, model.eval(), encoder, progress, history)
