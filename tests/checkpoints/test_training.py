"""The training: resumed is unbroken, the same seed gives the same weights, held out is held out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from finite_calculus.checkpoints import training_record
from finite_calculus.tasks import synthetic as tasks
from training import data, held_out, loop
from training.settings import Settings


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings that train in a second, and a short held-out measurement."""
    monkeypatch.setattr(held_out, "COUNT", 4)
    return Settings(width=32, hidden=32, layers=2, batch=4, part=2, steps=4, warmup=2)


def weights(out: Path) -> str:
    return json.loads((out / "embedded" / "training.json").read_text())["sha256"][
        "model.safetensors"
    ]


def test_a_resumed_training_gives_the_weights_of_the_unbroken_one(
    small: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    loop.train(small, tmp_path / "unbroken", save_every=1, report_every=2)
    complete, calls = loop.backward, []

    def interrupted(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return complete(*given)

    monkeypatch.setattr(loop, "backward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop.train(small, tmp_path / "broken", save_every=1, report_every=2)
    loop.train(small, tmp_path / "broken", save_every=1, report_every=2)
    assert weights(tmp_path / "broken") == weights(tmp_path / "unbroken")


def test_a_state_of_other_settings_is_refused(small: Settings, tmp_path: Path):
    loop.train(small, tmp_path, save_every=4, report_every=4)
    other = Settings(**{**vars(small), "seed": 6})
    with pytest.raises(SystemExit, match="choose another --out"):
        loop.train(other, tmp_path, save_every=4, report_every=4)


def test_encoding_piece_by_piece_is_encoding_the_whole():
    encoder = data.Encoder()
    rng = np.random.default_rng(1)
    for n in range(100):
        row = data.example(rng, 8, n % 2 == 0)
        whole = encoder.tokenizer.encode("".join(text for text, _ in row)).ids
        ids, answers, padding = encoder.batch([row])
        assert ids[0].tolist() == whole
        assert not padding.any()
        assert int(answers.sum()) == sum(is_answer for _, is_answer in row)


def test_prompts_of_the_papers_generator_are_recognised_and_turned_round():
    ordered = np.arange(1, 9)
    for shift in range(8):
        rolled = np.roll(ordered, shift)
        assert data.cyclic(rolled)
        assert not data.cyclic(rolled[::-1])
    assert not data.cyclic(np.array([1, 3, 2, 4, 5, 6, 7, 8]))
    assert not data.cyclic(np.arange(11, 19))
    for pair in range(32):
        for prompt in tasks.retrieval_pair(pair):
            assert data.cyclic(np.array([int(record[7:9]) for record in prompt.records]))


def test_the_committed_weights_come_from_the_settings_of_the_training():
    settings = json.loads(json.dumps(vars(Settings())))
    assert training_record()["settings"] == settings
