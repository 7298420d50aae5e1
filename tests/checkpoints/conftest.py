"""Folders that `save_pretrained` wrote, shared by the tests of folders and of the hub."""

from pathlib import Path

import pytest
import torch

from finite_calculus.checkpoints import load


@pytest.fixture(scope="session")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """`embedded` and `tiny-qwen2` as a user would save them; `other` has the weights of neither."""
    root = tmp_path_factory.mktemp("saved")
    for name in ("embedded", "tiny-qwen2"):
        for part in load(name):
            part.save_pretrained(root / name)
    model, tokenizer = load("tiny-qwen2")
    with torch.no_grad():
        next(model.parameters()).mul_(2)
    model.save_pretrained(root / "other")
    tokenizer.save_pretrained(root / "other")
    return {path.name: path for path in root.iterdir()}
