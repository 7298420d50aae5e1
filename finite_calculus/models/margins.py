"""The answer margin: which tokens it compares, and its sign.

The sign convention of the whole package: margin = logit(answer) − logit(versus). A positive margin
means that the model prefers `answer`; a positive effect means that an edit moved it towards `answer`.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from finite_calculus.models.devices import moving_hook, standing_in


@dataclass(frozen=True)
class Margin:
    """m = logit(answer) − logit(versus), by token ids."""

    answer: int
    versus: int

    def of(self, logits: Tensor) -> Tensor:
        """The margin of (..., vocabulary) logits, subtracted in their own precision."""
        return logits[..., self.answer] - logits[..., self.versus]


def margin(
    answer: int | str, versus: int | str, *, vocabulary: int, tokenizer: Any = None
) -> Margin:
    """A margin from two tokens, each given by id or by the text of exactly one token."""
    pair = Margin(
        token_id("answer", answer, vocabulary=vocabulary, tokenizer=tokenizer),
        token_id("versus", versus, vocabulary=vocabulary, tokenizer=tokenizer),
    )
    if pair.answer == pair.versus:
        raise ValueError(
            f"`answer` and `versus` must be different tokens; both are {pair.answer}. "
            f"Their margin is zero whatever the model does."
        )
    return pair


def token_id(name: str, token: int | str, *, vocabulary: int, tokenizer: Any = None) -> int:
    """The id of a token given by id or text; a text of several tokens is refused."""
    if isinstance(token, str):
        need_tokenizer(name, tokenizer)
        ids = tokenizer(token, add_special_tokens=False)["input_ids"]
        if len(ids) != 1:
            pieces = tokenizer.convert_ids_to_tokens(ids)
            spaced = " " + token.strip()
            other = f"A leading space often matters: try {spaced!r}, or pass"
            advice = "Pass" if token == spaced else other
            raise ValueError(
                f"`{name}` must be a single token; {token!r} is {len(ids)}: {pieces}. {advice} an id."
            )
        return int(ids[0])
    if isinstance(token, bool) or not isinstance(token, int) or not 0 <= token < vocabulary:
        raise ValueError(
            f"`{name}` must be a token id in 0..{vocabulary - 1}; got {token!r}. "
            f"Pass a text to have it looked up."
        )
    return token


def prompt_ids(prompt: str | Sequence[int] | Tensor, *, vocabulary: int, tokenizer: Any) -> Tensor:
    """Token ids of a prompt given as text or ids, as a vector of at least two."""
    if isinstance(prompt, str):
        need_tokenizer("prompt", tokenizer)
        prompt = tokenizer(prompt)["input_ids"]
    if isinstance(prompt, Mapping):
        raise TypeError(
            f"`prompt` must be a text or token ids; got a {type(prompt).__name__}. Pass its input_ids, one "
            f"prompt without padding."
        )
    ids = torch.as_tensor(prompt).squeeze(0) if isinstance(prompt, Tensor) else torch.tensor(prompt)
    if ids.ndim != 1 or ids.shape[0] < 2 or ids.is_floating_point():
        raise ValueError(
            f"`prompt` must be one sequence of at least two token ids; got shape {tuple(ids.shape)} of "
            f"{ids.dtype}. The last token reads what the others wrote."
        )
    if int(ids.min()) < 0 or int(ids.max()) >= vocabulary:
        raise ValueError(
            f"`prompt` must hold token ids in 0..{vocabulary - 1}; got values from {int(ids.min())} "
            f"to {int(ids.max())}. Was it encoded with this model's tokenizer?"
        )
    _refuse_padding(ids.tolist(), tokenizer)
    return ids.long()


def _refuse_padding(ids: list[int], tokenizer: Any) -> None:
    """Refuse ids that were padded: without their mask, the padding would be read as text.

    A pad token that also begins or ends texts may stand once at an end; only a run of it is padding there.
    """
    pad = getattr(tokenizer, "pad_token_id", None)
    if pad is None:
        return
    shared = pad in (tokenizer.bos_token_id, tokenizer.eos_token_id)
    runs = [
        next((n for n, i in enumerate(side) if i != pad), len(ids)) for side in (ids, ids[::-1])
    ]
    if max(runs) > int(shared):
        raise ValueError(
            f"`prompt` must not be padded; it begins or ends with {max(runs)} of the pad token {pad}, which "
            f"would be read as text. Prompts run one at a time: encode each on its own, without padding."
        )


def need_tokenizer(name: str, tokenizer: Any) -> None:
    """Require a tokenizer where a text was given."""
    if tokenizer is None:
        raise ValueError(
            f"`{name}` was given as text, which needs a tokenizer; there is none. "
            f"Pass attach(model, tokenizer=...), or token ids."
        )


@contextmanager
def answers_only(model: Any, margin: Margin) -> Iterator[Margin]:
    """Let the head multiply the answer's and the other's row alone; yields the margin of those two.

    What a model does to its logits afterwards (a cap, a scale) is done entry by entry. A head that is
    no plain linear map runs as it is.
    """
    head = model.get_output_embeddings()
    if type(head) is not nn.Linear or ("forward" in vars(head) and moving_hook(head) is None):
        yield margin
        return
    pair = torch.tensor([margin.answer, margin.versus], device=head.weight.device)
    bias = None if head.bias is None else head.bias[pair]
    weight = head.weight[pair]

    def two_rows(hidden: Tensor) -> Tensor:
        return nn.functional.linear(hidden.to(weight.device), weight, bias)

    with standing_in(head, two_rows):
        yield Margin(0, 1)
