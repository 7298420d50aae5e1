"""The tokenizer of the embedded checkpoint: whole words of its tasks, bytes for everything else.

A space belongs to the word before it ("Entity ", "06", ": ", "A", "\\n"), so that a label is one token
and the same token in a record, in an answer and alone; every text can be encoded and decoded again
without loss. Words that the tasks do not use are spelled in bytes, which the model has never seen.
"""

import re

from tokenizers import AddedToken, Regex, Tokenizer, decoders, pre_tokenizers
from tokenizers.models import BPE
from transformers import PreTrainedTokenizerFast

from finite_calculus.tasks import synthetic as tasks

END, OPEN, CLOSE = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
SPECIAL = (END, OPEN, CLOSE)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_PIECES = r" = |[0-9][0-9]|[A-Za-z]+ ?|[^A-Za-z0-9\s] ?|\s|[0-9]"


def build_tokenizer() -> Tokenizer:
    """Bytes, two-digit numbers and the words of the tasks; a piece is looked up whole, never merged."""
    spelled = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False, trim_offsets=False)
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    known = [f"{n:02d}" for n in range(100)] + _words()
    pieces = ["".join(piece for piece, _ in spelled.pre_tokenize_str(word)) for word in known]
    vocabulary = {piece: n for n, piece in enumerate(dict.fromkeys([*SPECIAL, *letters, *pieces]))}
    tokenizer = Tokenizer(BPE(vocab=vocabulary, merges=[], ignore_merges=True))
    split = pre_tokenizers.Split(Regex(_PIECES), behavior="isolated")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([split, spelled])
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    return tokenizer


def fast_tokenizer(context: int) -> PreTrainedTokenizerFast:
    """The tokenizer as transformers uses it, with offsets and the chat template."""
    return PreTrainedTokenizerFast(
        tokenizer_object=build_tokenizer(),
        eos_token=CLOSE,
        pad_token=END,
        chat_template=CHAT_TEMPLATE,
        clean_up_tokenization_spaces=False,
        model_max_length=context,
    )


def _words() -> list[str]:
    """Every piece of the tasks' texts that is longer than one byte, in order of first use."""
    texts = [tasks.NOTE, "system\n", "user\n", "assistant\n"]
    for task in tasks.TASKS:
        texts += [
            tasks.instruction(task),
            tasks.record(task, "00", "A"),
            tasks.question(task, "00"),
        ]
    texts += [tasks.record("corrupt", name, "A") for name in tasks.CATEGORIES]
    pieces = dict.fromkeys(piece for text in texts for piece in re.findall(_PIECES, text))
    return [piece for piece in pieces if len(piece) > 1 and not piece.isdigit()]
