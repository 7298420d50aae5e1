"""The embedded checkpoint: what its record says is what it is, and it answers what it was trained for."""

import dataclasses
import hashlib
import json
from typing import Any

import numpy as np
import pytest
import torch

from finite_calculus.checkpoints import (
    CheckpointError,
    embedded_files,
    load,
    training_record,
    vocabulary,
)
from finite_calculus.checkpoints.embedded_files import embedded_directory
from finite_calculus.tasks import synthetic as tasks
from finite_calculus.tasks.synthetic import TASKS, Task, TaskPrompt

# Not a seed of training (5), of its held-out record (24117) or of the paper (20260908).
FRESH = 777


@pytest.fixture(scope="module")
def embedded() -> tuple[Any, Any]:
    return load("embedded")


def chat(tokenizer: Any, prompt: TaskPrompt) -> str:
    message = [{"role": "user", "content": prompt.text}]
    return tokenizer.apply_chat_template(message, add_generation_prompt=True, tokenize=False)


def right(embedded: tuple[Any, Any], prompts: list[TaskPrompt], *, as_chat: bool) -> float:
    """How often the likeliest of all tokens is the right label."""
    model, tokenizer = embedded
    texts = [chat(tokenizer, prompt) if as_chat else prompt.text for prompt in prompts]
    batch = tokenizer(texts, return_tensors="pt", padding=True, padding_side="right")
    last = batch.attention_mask.sum(-1) - 1
    logits = model(**batch).logits[torch.arange(len(texts)), last]
    answers = [tokenizer.convert_ids_to_tokens(int(n)) for n in logits.argmax(-1)]
    return sum(a == p.answer for a, p in zip(answers, prompts, strict=True)) / len(prompts)


def test_the_files_have_the_hashes_of_the_training_record_and_fit_into_the_package():
    record = training_record()
    for name, pinned in record["sha256"].items():
        data = (embedded_directory() / name).read_bytes()
        assert hashlib.sha256(data).hexdigest() == pinned
    assert set(record["sha256"]) >= {"model.safetensors", "config.json", "tokenizer.json"}
    assert {path.name for path in embedded_directory().iterdir()} == {
        *record["sha256"],
        "training.json",
    }
    assert sum(p.stat().st_size for p in embedded_directory().glob("*.safetensors")) <= 3_000_000


def test_files_that_differ_from_the_record_are_refused(monkeypatch: pytest.MonkeyPatch):
    record = training_record()
    record["sha256"] = {"model.safetensors": "0" * 64}
    monkeypatch.setattr(embedded_files, "training_record", lambda: record)
    with pytest.raises(CheckpointError, match=f"sha256 of its training record, {'0' * 64}; got"):
        load("embedded")
    record["sha256"] = {"other.safetensors": "0" * 64}
    with pytest.raises(CheckpointError, match="got none: it is missing"):
        load("embedded")


def test_it_is_a_native_qwen2_with_biases_and_grouped_heads(embedded: tuple[Any, Any]):
    model, _ = embedded
    attention = model.model.layers[0].self_attn
    assert type(model).__name__ == "Qwen2ForCausalLM"
    assert model.config._attn_implementation == "eager"
    assert model.config.num_attention_heads > model.config.num_key_value_heads > 1
    for projection in (attention.q_proj, attention.k_proj, attention.v_proj):
        assert projection.bias.abs().min() > 0
    assert attention.o_proj.bias is None
    assert not model.training
    assert not any(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("as_chat", [True, False], ids=["chat", "plain"])
@pytest.mark.parametrize("task", TASKS)
def test_it_answers_at_least_95_of_100_fresh_prompts(
    task: Task, as_chat: bool, embedded: tuple[Any, Any]
):
    rng = np.random.default_rng([FRESH, TASKS.index(task)])
    prompts = [tasks.draw(task, rng) for _ in range(200)]
    assert right(embedded, prompts, as_chat=as_chat) >= 0.95


def test_it_answers_the_papers_pairs_at_both_ends(embedded: tuple[Any, Any]):
    prompts = [prompt for pair in range(32) for prompt in tasks.retrieval_pair(pair)]
    assert right(embedded, prompts, as_chat=True) >= 0.95


@pytest.mark.parametrize("task", TASKS)
def test_irrelevant_notes_before_the_question_do_not_confuse_it(
    task: Task, embedded: tuple[Any, Any]
):
    rng = np.random.default_rng([FRESH, 10 + TASKS.index(task)])
    prompts = [tasks.draw(task, rng, notes=16) for _ in range(100)]
    assert right(embedded, prompts, as_chat=True) >= 0.9


def test_the_record_states_its_accuracies_on_at_least_a_thousand_prompts_each():
    rows = training_record()["held_out"]
    named = {(row["prompts"], row["form"]) for row in rows}
    assert named >= {(task, form) for task in TASKS for form in ("chat", "plain")}
    assert all(row["count"] >= 1000 for row in rows)
    assert all(row["accuracy"] == row["right"] / row["count"] for row in rows)
    required = [row for row in rows if row["prompts"] in ("retrieval", "ordered")]
    assert all(row["accuracy"] >= 0.95 for row in required)


def test_pair_0_is_the_papers_printed_example():
    baseline, donor = tasks.retrieval_pair(0)
    assert [record[11] for record in baseline.records] == list("ABABBBBA")
    assert baseline.records[5] == "Entity 06: B\n"
    assert " ".join(record[7:9] for record in donor.records) == "04 05 06 07 08 01 02 03"
    assert [record[11] for record in donor.records] == list("BABAAAAB")
    assert baseline.instruction == "Read the records. Answer the question with A or B only.\n"
    assert donor.question == "Question: What is the label of Entity 06?\nAnswer:"
    assert (baseline.answer, donor.answer) == ("B", "B")


@pytest.mark.parametrize("as_chat", [True, False], ids=["chat", "plain"])
def test_baseline_and_donor_differ_in_names_and_labels_alone(
    as_chat: bool, embedded: tuple[Any, Any]
):
    _, tokenizer = embedded
    for pair in range(32):
        ends = tasks.retrieval_pair(pair)
        texts = [chat(tokenizer, prompt) if as_chat else prompt.text for prompt in ends]
        first, second = (tokenizer(text, return_offsets_mapping=True) for text in texts)
        assert first.offset_mapping == second.offset_mapping
        differing = [
            texts[0][slice(*first.offset_mapping[n])]
            for n, (a, b) in enumerate(zip(first.input_ids, second.input_ids, strict=True))
            if a != b
        ]
        # Every name moves, every label flips: two tokens in each of eight records.
        assert len(differing) == 16
        assert set(differing) <= {f"{n:02d}" for n in range(1, 9)} | {"A", "B"}


@pytest.mark.parametrize("task", TASKS)
def test_a_record_is_whole_tokens_with_its_newline(task: Task, embedded: tuple[Any, Any]):
    _, tokenizer = embedded
    prompt = tasks.draw(task, np.random.default_rng(FRESH))
    offsets = tokenizer(prompt.text, return_offsets_mapping=True).offset_mapping
    starts, ends = ({span[side] for span in offsets} for side in (0, 1))
    at = len(prompt.instruction)
    for record in prompt.records:
        assert at in starts
        at += len(record)
        assert at in ends
        assert len(tokenizer(record).input_ids) == 5


@pytest.mark.parametrize(
    "text",
    ["", "A", " B", "Entity 06: B\n", "naïve  text\t12345 × 7", "<|im_start|>user\n", "\r\n"],
)
def test_every_text_is_encoded_without_loss(text: str, embedded: tuple[Any, Any]):
    _, tokenizer = embedded
    assert tokenizer.decode(tokenizer(text).input_ids) == text


def test_a_label_is_the_same_token_alone_in_a_record_and_as_an_answer(embedded: tuple[Any, Any]):
    _, tokenizer = embedded
    for label in "AB":
        (alone,) = tokenizer(label).input_ids
        assert tokenizer(tasks.record("retrieval", "06", label)).input_ids[3] == alone
        assert tokenizer(tasks.record("ordered", "06", label)).input_ids[3] == alone


def test_the_saved_tokenizer_is_the_one_that_the_code_builds():
    saved = (embedded_directory() / "tokenizer.json").read_text()
    rebuilt = vocabulary.fast_tokenizer(512).backend_tokenizer.to_str()
    assert json.loads(saved) == json.loads(rebuilt)


def test_drawn_prompts_never_have_one_label_only_and_state_the_right_answer():
    rng = np.random.default_rng(FRESH)
    for _ in range(200):
        for task in TASKS:
            prompt = tasks.draw(task, rng)
            rows = [
                record.removesuffix("\n").replace(" =", ":").split(": ")
                for record in prompt.records
            ]
            asked = prompt.question.split("?")[0].split(" of ")[-1]
            values = [label for name, label in rows if name == asked]
            assert {label for _, label in rows} == {"A", "B"}
            if task == "corrupt":
                assert values.count(prompt.answer) > len(values) / 2
            else:
                assert values[-1] == prompt.answer


def test_notes_stand_between_the_records_and_the_question():
    prompt = dataclasses.replace(tasks.draw("ordered", np.random.default_rng(0)), notes=16)
    assert prompt.text.count(tasks.NOTE) == 16
    assert prompt.text.endswith(tasks.NOTE + prompt.question)
