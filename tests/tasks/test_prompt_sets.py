"""Prompt sets: five variants each, answers that follow the text, streams that share nothing."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from finite_calculus.tasks import sst2
from finite_calculus.tasks.prompt_sets import (
    GAP,
    NOTES,
    PAPER_SEED,
    PromptSet,
    distinct_sets,
    draw_orders,
)
from finite_calculus.tasks.set_families import FAMILIES, Family, family_sets
from finite_calculus.tasks.sst2_sets import sst2_sets
from finite_calculus.tasks.synthetic import NOTE

FILLER = "a plain sentence of about thirty characters, number"
SYNTHETIC = [(family, stream) for family in FAMILIES for stream in ("calibration", "test")]
SYNTHETIC.remove(("decisive", "test"))


@pytest.fixture
def data(tmp_path: Path) -> sst2.Sst2:
    """A made-up data set in the usual two columns."""
    for name, rows in (("train.tsv", 160), ("dev.tsv", 30)):
        lines = [f"{FILLER} {name[0]}{n:03d} \t{n % 2}" for n in range(rows)]
        (tmp_path / name).write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    return sst2.read_sst2(tmp_path)


def sets_of(family: Family, stream: str, count: int = 40) -> list[PromptSet]:
    return family_sets(
        family, "test" if stream == "test" else "calibration", count, seed=PAPER_SEED
    )


def lines_of(prompt: PromptSet, variant: int) -> list[str]:
    """The demonstrations as they stand in the message."""
    lines = prompt.text(variant).splitlines()
    return [line for line in lines[1:] if not line.startswith(("Note", "Question", "Answer"))]


@pytest.mark.parametrize(("family", "stream"), SYNTHETIC)
def test_every_set_has_four_orders_that_read_differently_and_a_gap(family: Family, stream: str):
    for prompt in sets_of(family, stream):
        assert len(prompt.orders) == 5
        assert prompt.orders[0] == prompt.orders[GAP] == tuple(range(8))
        texts = [prompt.text(variant) for variant in prompt.variants]
        assert len(set(texts)) == 5
        assert {tuple(sorted(lines_of(prompt, v))) for v in prompt.variants} == {
            tuple(sorted(lines_of(prompt, 0)))
        }
        assert [text.count(NOTE) for text in texts] == [0, 0, 0, 0, NOTES]
        assert texts[GAP] == texts[0].replace(prompt.question, NOTE * 16 + prompt.question)


def test_ordered_labels_follow_the_actual_order_of_assignments():
    changed = 0
    for prompt in sets_of("ordered", "test"):
        asked = re.findall(r"Register (\d\d)\?", prompt.question)[0]
        for variant in prompt.variants:
            values = [line[-1] for line in lines_of(prompt, variant) if line[9:11] == asked]
            assert set(values) == {"A", "B"}
            assert prompt.answers[variant] == values[-1]
            target = prompt.targets[variant]
            assert target is not None
            assert prompt.records[target] == f"Register {asked} = {values[-1]}\n"
        changed += len(set(prompt.answers)) > 1
    assert changed > 20


def test_corrupted_mappings_have_one_wrong_label_and_ask_for_the_right_one():
    for prompt in sets_of("corrupt", "test"):
        rows = [re.findall(r"Category (\w+): (\w)", line)[0] for line in lines_of(prompt, 0)]
        counts = Counter(rows)
        assert sorted(counts.values()) == [1, 3, 4]
        asked = re.findall(r"Category (\w+)\?", prompt.question)[0]
        labels = Counter(label for name, label in rows if name == asked)
        assert set(prompt.answers) == {labels.most_common(1)[0][0]}


def test_retrieval_asks_for_the_label_of_one_entity():
    for prompt in sets_of("retrieval", "calibration"):
        asked = re.findall(r"Entity (\d\d)\?", prompt.question)[0]
        assert set(prompt.answers) == {dict(r[7:].split(": ") for r in lines_of(prompt, 0))[asked]}
        assert {prompt.records[target or 0][7:9] for target in prompt.targets} == {asked}


def test_one_attribute_decides_and_the_other_does_not():
    for prompt in sets_of("decisive", "calibration"):
        items = [re.findall(r"Item (\w+) (\w+): (\w)", line)[0] for line in lines_of(prompt, 0)]
        asked = re.findall(r"Item (\w+) (\w+)\?", prompt.question)[0]
        deciding = [n for n in (0, 1) if len({(item[n], item[2]) for item in items}) == 2]
        assert len(deciding) == 1
        labels = {item[2] for item in items if item[deciding[0]] == asked[deciding[0]]}
        assert labels == set(prompt.answers)


@pytest.mark.parametrize("family", ["corrupt", "ordered", "retrieval"])
def test_the_streams_share_no_example(family: Family):
    first, second = (
        {(*sorted(p.records), p.question) for p in sets_of(family, stream, 256)}
        for stream in ("calibration", "test")
    )
    assert not first & second
    assert len({p.text(0) for p in sets_of(family, "test", 256)}) == 256


@pytest.mark.parametrize(("family", "stream"), SYNTHETIC)
def test_a_set_is_the_same_however_many_are_asked_for(family: Family, stream: str):
    assert sets_of(family, stream, 12)[:3] == sets_of(family, stream, 3)
    other = family_sets(family, "calibration", 3, seed=1)
    assert [p.text(0) for p in other] != [p.text(0) for p in sets_of(family, "calibration", 3)]


def test_sst2_uses_no_sentence_twice_and_flips_one_label(data: sst2.Sst2):
    first = sst2_sets(data, "calibration", 4, 12, seed=PAPER_SEED)
    second = sst2_sets(data, "test", 12, 4, seed=PAPER_SEED)
    rows = [row for prompt in (*first, *second) for row in prompt.source["train_rows"]]
    queries = [prompt.source["validation_row"] for prompt in (*first, *second)]
    assert len(set(rows)) == 8 * 16
    assert len(set(queries)) == 16
    for prompt in (*first, *second):
        labels = [data.train.labels[row] for row in prompt.source["train_rows"]]
        assert labels.count(0) == 4
        wrong = [n for n, r in enumerate(prompt.records) if r[-2] != sst2.LABEL[labels[n]]]
        assert wrong == [prompt.source["flipped"]]
        assert (
            prompt.answers
            == (sst2.LABEL[data.validation.labels[prompt.source["validation_row"]]],) * 5
        )
    assert sst2_sets(data, "test", 5, 4, seed=PAPER_SEED) == second[:5]


def test_sst2_sentences_that_are_equal_but_for_case_count_as_one(tmp_path: Path):
    for name in ("train.tsv", "dev.tsv"):
        lines = [f"{FILLER.upper() if n % 4 < 2 else FILLER} {n // 4}\t{n % 2}" for n in range(80)]
        (tmp_path / name).write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
    with pytest.raises(ValueError, match="must not exceed 0, so that no sentence of SST-2"):
        sst2_sets(sst2.read_sst2(tmp_path), "test", 1, 0, seed=1)


def test_more_sets_than_there_are_is_refused(data: sst2.Sst2):
    with pytest.raises(ValueError, match=r"`sets` of both streams .* exceed 20, .* got 21"):
        sst2_sets(data, "test", 12, 9, seed=1)
    text = sets_of("corrupt", "test", 1)[0]
    with pytest.raises(
        ValueError, match="`sets` must not exceed the distinct sets of mine; number 1"
    ):
        distinct_sets(lambda index, attempt: text, 2, name="mine")


def test_decisive_prompts_serve_calibration_alone():
    with pytest.raises(ValueError, match="decisive serves calibration alone; got the stream test"):
        family_sets("decisive", "test", 1, seed=1)


def test_equal_records_have_no_four_orders():
    assert draw_orders(("same\n",) * 8, np.random.default_rng(0)) is None
