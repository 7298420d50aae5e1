"""Prompts run one at a time: token ids that were padded, and batches of prompts, are refused."""

import pytest
import torch

from finite_calculus.models import attach
from finite_calculus.models.tiny import tiny_model


@pytest.fixture(scope="module")
def model():
    return tiny_model("qwen2")


class Padding:
    """What a tokenizer says of its special tokens."""

    def __init__(self, pad: int | None, eos: int) -> None:
        self.pad_token_id, self.eos_token_id, self.bos_token_id = pad, eos, 1


@pytest.mark.parametrize("pad_first", [True, False])
def test_padded_prompts_are_refused(model, ids, pad_first) -> None:
    def padded(count: int) -> torch.Tensor:
        padding = torch.full((count,), 90)
        return torch.cat([padding, ids] if pad_first else [ids, padding])

    for tokenizer, allowed in ((Padding(90, 2), 0), (Padding(90, 90), 1), (Padding(None, 2), 3)):
        with attach(model, tokenizer=tokenizer) as instrument:
            assert len(instrument.encode(padded(allowed))) == len(ids) + allowed
            if allowed < 3:
                with pytest.raises(ValueError, match="must not be padded; it begins or ends with"):
                    instrument.capture(padded(allowed + 1), answer=3, versus=5)


@pytest.mark.usefixtures("unchecked_shapes")
def test_a_batch_of_prompts_or_what_a_tokenizer_returns_is_refused(model, ids) -> None:
    instrument = attach(model)
    with pytest.raises(TypeError, match="`prompt` must be a text or token ids; got a dict"):
        instrument.capture({"input_ids": ids}, answer=3, versus=5)  # pyright: ignore
    with pytest.raises(ValueError, match=r"one sequence of at least two token ids; got shape \(2"):
        instrument.capture(torch.stack([ids, ids]), answer=3, versus=5)
    instrument.close()
