"""The training script: resumed is unbroken, the same seed gives the same weights, held out is held out."""

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from finite_calculus.checkpoints import training_record
from finite_calculus.tasks import synthetic as tasks

SCRIPT = Path(__file__).parents[2] / "bench" / "train_embedded.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("train_embedded", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["train_embedded"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def small(script: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Settings that train in a second, and a short held-out measurement."""
    monkeypatch.setattr(script, "COUNT", 4)
    return script.Settings(width=32, hidden=32, layers=2, batch=4, part=2, steps=4, warmup=2)


def weights(out: Path) -> str:
    return json.loads((out / "embedded" / "training.json").read_text())["sha256"][
        "model.safetensors"
    ]


def test_a_resumed_training_gives_the_weights_of_the_unbroken_one(
    script: Any, small: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    script.train(small, tmp_path / "unbroken", save_every=1, report_every=2)
    complete, calls = script.backward, []

    def interrupted(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return complete(*given)

    monkeypatch.setattr(script, "backward", interrupted)
    with pytest.raises(KeyboardInterrupt):
        script.train(small, tmp_path / "broken", save_every=1, report_every=2)
    script.train(small, tmp_path / "broken", save_every=1, report_every=2)
    assert weights(tmp_path / "broken") == weights(tmp_path / "unbroken")


def test_a_state_of_other_settings_is_refused(script: Any, small: Any, tmp_path: Path):
    script.train(small, tmp_path, save_every=4, report_every=4)
    other = script.Settings(**{**vars(small), "seed": 6})
    with pytest.raises(SystemExit, match="choose another --out"):
        script.train(other, tmp_path, save_every=4, report_every=4)


def test_encoding_piece_by_piece_is_encoding_the_whole(script: Any):
    encoder = script.Encoder()
    rng = np.random.default_rng(1)
    for n in range(100):
        row = script.example(rng, 8, n % 2 == 0)
        whole = encoder.tokenizer.encode("".join(text for text, _ in row)).ids
        ids, answers, padding = encoder.batch([row])
        assert ids[0].tolist() == whole
        assert not padding.any()
        assert int(answers.sum()) == sum(is_answer for _, is_answer in row)


def test_prompts_of_the_papers_generator_are_recognised_and_turned_round(script: Any):
    ordered = np.arange(1, 9)
    for shift in range(8):
        rolled = np.roll(ordered, shift)
        assert script.cyclic(rolled)
        assert not script.cyclic(rolled[::-1])
    assert not script.cyclic(np.array([1, 3, 2, 4, 5, 6, 7, 8]))
    assert not script.cyclic(np.arange(11, 19))
    for pair in range(32):
        for prompt in tasks.retrieval_pair(pair):
            assert script.cyclic(np.array([int(record[7:9]) for record in prompt.records]))


def test_the_committed_weights_come_from_the_settings_of_the_script(script: Any):
    settings = json.loads(json.dumps(vars(script.Settings())))
    assert training_record()["settings"] == settings
