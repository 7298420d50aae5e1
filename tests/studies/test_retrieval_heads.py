"""Retrieval heads: they are found, planes of those heads alone are set to zero, and that is checked."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from finite_calculus.checkpoints import load
from finite_calculus.harness import Records, Tables
from finite_calculus.harness.records import failed_checks, read_saved
from finite_calculus.harness.runner import run
from finite_calculus.harness.summary import report_tables
from finite_calculus.models import attach
from finite_calculus.rotary import Rotary, rotate
from finite_calculus.studies.retrieval_heads import STUDY, HeadSettings, unit
from finite_calculus.studies.retrieval_heads.finding import choose_heads, score_heads
from finite_calculus.studies.retrieval_heads.masks import BANDS, band_planes, coordinates
from finite_calculus.studies.retrieval_heads.prompts import (
    HeadPrompt,
    head_prompts,
    prompt_of_set,
)
from finite_calculus.studies.retrieval_heads.rows import HeadScore, Recall, SingleLayer
from finite_calculus.tasks.prompt_sets import PAPER_SEED
from finite_calculus.tasks.set_families import family_sets
from finite_calculus.tasks.set_tokens import tokenise_set

POLICY = {"retrieval": [[1, 2], [1, 3]], "other": [[0, 1], [2, 0]]}


def settings(**changes: Any) -> HeadSettings:
    return HeadSettings.complete({"model": "embedded", "find_sets": 2, "sets": 2, **changes}, 4)


@pytest.fixture(scope="module")
def prompt(embedded: Any) -> HeadPrompt:
    return head_prompts("ordered", "test", 1, embedded[1], 512, seed=PAPER_SEED)[0]


def test_a_run_finds_the_heads_that_the_embedded_model_was_given(
    embedded: Any, tmp_path: Path
) -> None:
    assert run(STUDY, settings(), tmp_path / "run", loaded=embedded).done == 8
    assert failed_checks(tmp_path / "run") == ""
    saved = read_saved(tmp_path / "run")
    # Tasks in turn, so that a part of a run is a balanced one.
    tested = [name for name in saved.units if "-test-" in name]
    assert [name.split("-")[0] for name in tested] == 2 * ["retrieval", "ordered"]
    tables = {table.name: table for table in report_tables(saved)}
    assert list(tables) == ["heads", "recall", "anchor", "single"]
    assert {line[0] for line in tables["heads"].rows} == {1}
    assert len(saved.records.rows(Recall)) == 4 * 2 * len(BANDS) * 2
    assert {row.layer for row in saved.records.rows(SingleLayer)} == {1}


@pytest.mark.parametrize("layout", ["half", "interleaved"])
def test_coordinates_are_those_that_a_band_turns(layout: Any) -> None:
    rotary = Rotary.from_base(1e4, 20, rotary_width=16, layout=layout)
    for band in BANDS:
        planes = band_planes(rotary, band, (1, 2))
        vector = torch.rand(20, dtype=torch.float64)
        moved = rotate(rotary, vector, 1.5, band=planes) != vector
        assert torch.equal(moved, coordinates(rotary, planes))
    sizes = {band: int(band_planes(rotary, band, (1, 2)).sum()) for band in BANDS}
    assert sizes["random"] == sizes["slow"]
    assert sizes["all"] == 8
    first, again, other = (band_planes(rotary, "random", seed) for seed in ((1, 2), (1, 2), (1, 3)))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_a_row_that_zeroes_another_head_fails_its_check(
    embedded: Any, prompt: HeadPrompt, monkeypatch: pytest.MonkeyPatch
) -> None:
    with attach(embedded[0], tokenizer=embedded[1]) as instrument:
        checks = unit.run_prompt(instrument, settings(), prompt, POLICY).checks
        assert [check.failed for check in checks] == [0, 0]
        right = unit._readout_error

        def wrong(layer: Any, call: Any, output: Any, row: int, zeroed: Any) -> Any:
            return right(layer, call, output, row, zeroed.roll(1, 0))

        monkeypatch.setattr(unit, "_readout_error", wrong)
        checks = unit.run_prompt(instrument, settings(), prompt, POLICY).checks
    assert checks[0].failed > 0


def test_last_queries_are_edited_less_than_all_and_no_head_means_no_change(
    embedded: Any, prompt: HeadPrompt
) -> None:
    with attach(embedded[0], tokenizer=embedded[1]) as instrument:
        rows = unit.run_prompt(instrument, settings(), prompt, POLICY).rows["recalls"]
    recalls = [row for row in rows if isinstance(row, Recall)]
    assert len({row.control for row in recalls}) == 1
    moved = {(r.heads, r.band, r.queries): r.margin for r in recalls}
    assert moved["retrieval", "all", "last"] != moved["retrieval", "all", "all"]


def test_attention_to_records_is_that_of_the_model(embedded: Any, prompt: HeadPrompt) -> None:
    with attach(embedded[0], tokenizer=embedded[1]) as instrument:
        scores = score_heads(instrument, prompt)
    # A model of its own: transformers leaves hooks behind when it is asked for attentions.
    model, _ = load("embedded")
    model.set_attn_implementation("eager")
    with torch.no_grad():
        ids = torch.tensor([prompt.ids])
        attentions = model(input_ids=ids, output_attentions=True).attentions
    first, stop = prompt.spans[prompt.target]
    for row in scores:
        native = float(attentions[row.layer][0, row.head, -1, first:stop].sum())
        assert row.target == pytest.approx(
            native, abs=len(ids[0]) * float(np.finfo(np.float32).eps)
        )


def test_a_prompt_without_a_target_is_refused(embedded: Any) -> None:
    prompts = family_sets("corrupt", "test", 1, seed=PAPER_SEED)[0]
    with pytest.raises(ValueError, match="must have a record that holds the answer; it has none"):
        prompt_of_set(tokenise_set(prompts, embedded[1], 512))


def test_a_colour_is_the_next_token_and_the_streams_share_no_person() -> None:
    tokenizer: Any
    try:
        tokenizer = load("smollm2-135m-instruct")[1]
    except (OSError, RuntimeError, ValueError) as error:
        pytest.skip(f"smollm2-135m-instruct cannot be had here: {error}")
    people = []
    for stream in ("calibration", "test"):
        prompts = head_prompts("colours", stream, 5, tokenizer, 512, seed=PAPER_SEED)
        for prompt in prompts:
            assert prompt.right == prompt.target
            first, stop = prompt.spans[prompt.target]
            record = tokenizer.decode(prompt.ids[first:stop])
            name, colour = re.findall(r"The colour of (\w+) is (\w+)\.", record)[0]
            text = tokenizer.decode(prompt.ids)
            assert text.endswith(f"The colour of {name} is")
            assert tokenizer.decode([prompt.candidates[prompt.right]]) == f" {colour}"
            assert len(set(prompt.candidates)) == len(prompt.spans) == 8
            people.append((stream, name))
        again = head_prompts("colours", stream, 2, tokenizer, 512, seed=PAPER_SEED)
        assert again == prompts[:2]
    names = [{name for part, name in people if part == s} for s in ("calibration", "test")]
    assert not names[0] & names[1]


def test_a_margin_is_taken_from_the_strongest_wrong_candidate(prompt: HeadPrompt) -> None:
    three = replace(prompt, candidates=(4, 2, 0), right=1)
    logits = torch.tensor([[5.0, 9.0, 3.0, 9.0, 1.0], [0.0, 0.0, 2.0, 9.0, -1.0]])
    assert unit._margins(logits, three) == [-2.0, 2.0]


def test_heads_are_ranked_by_contrast_and_leave_others_beside_them() -> None:
    scores = [HeadScore("ordered", 0, 0, n, 0.1 * n, 0.02, False) for n in range(6)]

    class Listed(Tables):
        def rows(self, kind: Any) -> list[Any]:
            return scores

    records = Records(Listed({}, {}), {})
    policy = choose_heads(settings(heads=2), records)
    assert policy["retrieval"] == [[0, 4], [0, 5]]
    assert len(policy["other"]) == 2
    assert not {4, 5} & {head for _, head in policy["other"]}
    with pytest.raises(ValueError, match=r"`heads` must leave as many others .* got 4 of 6"):
        choose_heads(settings(heads=4), records)


def test_the_number_of_heads_follows_the_model() -> None:
    assert settings().heads == 2
    assert HeadSettings.complete({"model": "smollm2-135m-instruct"}, 30).heads == 14
    build: Callable[..., HeadSettings] = HeadSettings.complete
    with pytest.raises(ValueError, match="needs a model; its depth is not known"):
        build({"model": "embedded"}, None)
