"""Accuracy on prompts that were never trained on."""

import numpy as np
import torch
from transformers import Qwen2ForCausalLM

from finite_calculus.tasks import synthetic as tasks
from finite_calculus.tasks.synthetic import TASKS
from training.data import Encoder

# A seed that training never draws from. Of these prompts' record lists, training happened to draw 5 in
# 6,000 of retrieval and ordered as well, and 227 in 3,000 of corrupt, which has few; none of the pairs.
HELD_OUT = 24117
COUNT = 2000


@torch.no_grad()
def held_out(model: Qwen2ForCausalLM, encoder: Encoder) -> list[dict[str, object]]:
    """Accuracy over the whole vocabulary on prompts never trained on, per task and form."""
    rows = []
    for form in ("chat", "plain"):
        for n, task in enumerate(TASKS):
            rng = np.random.default_rng(np.random.SeedSequence([HELD_OUT, n]))
            rows.append(
                measure(model, encoder, task, form, [tasks.draw(task, rng) for _ in range(COUNT)])
            )
            rng = np.random.default_rng(np.random.SeedSequence([HELD_OUT, 10 + n]))
            noted = [tasks.draw(task, rng, notes=16) for _ in range(COUNT // 2)]
            rows.append(measure(model, encoder, f"{task} with 16 notes", form, noted))
        pairs = [prompt for pair in range(COUNT // 2) for prompt in tasks.retrieval_pair(pair)]
        rows.append(measure(model, encoder, "the paper's retrieval pairs", form, pairs))
    return rows


def measure(
    model: Qwen2ForCausalLM, encoder: Encoder, name: str, form: str, prompts: list[tasks.TaskPrompt]
) -> dict[str, object]:
    """How often the likeliest token is the right label, and how often the likelier of A and B is."""
    label = [encoder.tokenizer.token_to_id(text) for text in "AB"]
    right = between = 0
    for start in range(0, len(prompts), 100):
        part = prompts[start : start + 100]
        texts = [wrapped(prompt.text) if form == "chat" else prompt.text for prompt in part]
        ids = [encoder.tokenizer.encode(text).ids for text in texts]
        last = torch.tensor([len(row) - 1 for row in ids])
        padded = torch.zeros(len(ids), max(map(len, ids)), dtype=torch.long)
        for n, row in enumerate(ids):
            padded[n, : len(row)] = torch.tensor(row)
        logits = model(input_ids=padded, use_cache=False).logits[torch.arange(len(ids)), last]
        labels = torch.tensor([label["AB".index(prompt.answer)] for prompt in part])
        right += int((logits.argmax(-1) == labels).sum())
        choices = torch.tensor(label)[logits[:, label].argmax(-1)]
        between += int((choices == labels).sum())
    count = len(prompts)
    return {
        "prompts": name,
        "form": form,
        "count": count,
        "right": right,
        "accuracy": right / count,
        "accuracy_between_A_and_B": between / count,
    }


def wrapped(text: str) -> str:
    """The prompt as the chat template wraps it."""
    return f"<|im_start|>user\n{text}<|im_end|>\n<|im_start|>assistant\n"
