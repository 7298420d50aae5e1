"""The work of every peer done by plain Hugging Face, the check of what a peer computes, and the clock.

The model, the prompt, the layer, the spans and the two strengths are those of bench/execution.py, which
cannot be imported here: a peer's environment has torch and transformers, not this package. There the
last query alone reads an edited key; a hook changes it for every query that reads it, in the same
forward pass. Ways that patch a prefix cache do as bench/execution.py does, and have a reference of their
own. A forward pass gives the logits of all its positions, as the plain one there does.
"""

import argparse
import copy
import importlib.metadata
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

TOKENS, LAYER, ANSWER, VERSUS = 115, 18, 330, 389
BATCH, ROUNDS = 8, 5
ABSOLUTE, RELATIVE = 5e-5, 5e-4  # the paper's tolerance for margins in native float32


@dataclass(frozen=True, eq=False)
class PeerEdit:
    """What a span's keys, before their rotation, and values become."""

    tokens: list[int]
    keys: Tensor
    values: Tensor


Run = Callable[[list[PeerEdit]], Tensor]


@dataclass(frozen=True, eq=False)
class Way:
    """One way to execute edits: a function of at most `batch` of them, and what it should give."""

    run: Run
    batch: int
    last_query: bool = False


@dataclass(frozen=True, eq=False)
class Plain:
    """The model, its prompt, a donor prompt, and edits by forward hooks."""

    directory: str

    @cached_property
    def model(self) -> Any:
        model = AutoModelForCausalLM.from_pretrained(
            self.directory, dtype=torch.float32, attn_implementation="eager", local_files_only=True
        )
        return model.eval().requires_grad_(False)

    @cached_property
    def ids(self) -> Tensor:
        draw = torch.Generator().manual_seed(0)
        return torch.randint(3, self.model.config.vocab_size, (1, TOKENS), generator=draw)

    @property
    def attention(self) -> Any:
        return self.model.model.layers[LAYER].self_attn

    @cached_property
    def below(self) -> Tensor:
        """The residual stream that enters the edited layer."""
        return self.model(input_ids=self.ids, output_hidden_states=True).hidden_states[LAYER]

    def edits(self, count: int) -> list[PeerEdit]:
        """Spans of two to four tokens that wander over the prompt, half way to the donor or all the way."""
        own = self._projections(self.ids)
        donor = self._projections(torch.cat([self.ids[:, :-1].flip(1), self.ids[:, -1:]], 1))
        edits = []
        for n in range(count):
            start = 1 + n % (TOKENS - 6)
            where = list(range(start, start + 2 + n % 3))
            pairs = zip(own, donor, strict=True)
            keys, values = (torch.lerp(a[where], b[where], 0.5 + 0.5 * (n % 2)) for a, b in pairs)
            edits.append(PeerEdit(where, keys, values))
        return edits

    def run(self, edits: list[PeerEdit]) -> Tensor:
        """One forward pass in which hooks put the new keys and values into their places."""
        with (
            hooked(self.attention.k_proj, edits, "keys"),
            hooked(self.attention.v_proj, edits, "values"),
        ):
            logits = self.model(input_ids=self.ids.expand(len(edits), -1), use_cache=False).logits
        return margin(logits)

    def run_on_cache(self, edits: list[PeerEdit]) -> Tensor:
        """The last token alone, over a copy of the prefix cache whose keys and values are replaced."""
        last = self.ids[:, -1:].expand(len(edits), 1)
        return margin(self.model(input_ids=last, past_key_values=self.cache(edits)).logits)

    def cache(self, edits: list[PeerEdit]) -> Any:
        """A copy of the prefix cache with a row for every edit."""
        cache = copy.deepcopy(self._cache)
        cache.batch_repeat_interleave(len(edits))
        layer = cache.layers[LAYER]
        for row, edit in enumerate(edits):
            layer.keys[row, :, edit.tokens] = self._rotated(edit)
            layer.values[row, :, edit.tokens] = self._heads(edit.values)
        return cache

    def _rotated(self, edit: PeerEdit) -> Tensor:
        cos, sin = (part[0, edit.tokens] for part in self._rotary)
        keys = self._heads(edit.keys)
        first, second = keys.chunk(2, -1)
        return keys * cos + torch.cat([-second, first], -1) * sin

    def _heads(self, projected: Tensor) -> Tensor:
        """From (tokens, heads × width) to (heads, tokens, width)."""
        return projected.unflatten(-1, (-1, self.attention.head_dim)).transpose(0, 1)

    @cached_property
    def _rotary(self) -> tuple[Tensor, Tensor]:
        return self.model.model.rotary_emb(torch.zeros(1), torch.arange(TOKENS).unsqueeze(0))

    @cached_property
    def _cache(self) -> Any:
        return self.model(input_ids=self.ids[:, :-1], use_cache=True).past_key_values

    def _projections(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Keys before their rotation, and values, of all tokens."""
        vectors: list[Tensor] = []
        modules = (self.attention.k_proj, self.attention.v_proj)
        hooks = [m.register_forward_hook(lambda _m, _i, o: vectors.append(o[0])) for m in modules]
        self.model(input_ids=ids, use_cache=False)
        for hook in hooks:
            hook.remove()
        return vectors[0], vectors[1]


@contextmanager
def hooked(module: Any, edits: list[PeerEdit], part: str) -> Iterator[None]:
    """A forward hook that writes every row's own edit into what the module gives."""
    hook = module.register_forward_hook(lambda _m, _i, output: put(output, edits, part))
    try:
        yield
    finally:
        hook.remove()


def put(output: Tensor, edits: list[PeerEdit], part: str) -> Tensor:
    """Write each row's `part`, "keys" or "values", into (rows, tokens, ...)."""
    for row, edit in enumerate(edits):
        new: Tensor = getattr(edit, part)
        output[row, edit.tokens] = new.view(len(edit.tokens), *output.shape[2:])
    return output


def margin(logits: Tensor) -> Tensor:
    """The answer's logit less the other one's, at the last position of every row."""
    return logits[:, -1, ANSWER] - logits[:, -1, VERSUS]


def measure(package: str, ways: Callable[[Plain], dict[str, Way]]) -> None:
    """Check and time the ways of a package beside plain Hugging Face; the last line printed is JSON."""
    parser = argparse.ArgumentParser(description="Run by bench/peers.py.")
    parser.add_argument("directory", help="the converted checkpoint")
    parser.add_argument("edits", type=int)
    options = parser.parse_args()
    plain = Plain(options.directory)
    with torch.no_grad():
        edits = plain.edits(options.edits)
        compared = {"plain": Way(plain.run, 1), **ways(plain)}
        check(plain, edits, compared)
        seconds = take_turns({name: partial(all_of, way, edits) for name, way in compared.items()})
    versions = {name: importlib.metadata.version(name) for name in ("torch", "transformers")}
    figures = {
        "version": importlib.metadata.version(package),
        **versions,
        "threads": torch.get_num_threads(),
        "rates": {name: options.edits / spent for name, spent in seconds.items()},
    }
    print(json.dumps(figures))


def check(plain: Plain, edits: list[PeerEdit], ways: dict[str, Way]) -> None:
    """Refuse a way whose margins are not those of plain Hugging Face, or edits that do nothing."""
    untouched = margin(plain.model(input_ids=plain.ids, use_cache=False).logits)
    references = {
        False: all_of(Way(plain.run, 1), edits),
        True: all_of(Way(plain.run_on_cache, 1), edits),
    }
    for name, way in ways.items():
        expected = references[way.last_query]
        slack = ABSOLUTE + RELATIVE * expected.abs()
        if bool(((expected - untouched).abs() <= slack).all()):
            raise SystemExit(f"{name}: no edit changes the margin; nothing would be tested.")
        gap = (all_of(way, edits) - expected).abs()
        if not bool((gap <= slack).all()):
            wrong = int((gap > slack).sum())
            raise SystemExit(
                f"{name}: {wrong} of {len(edits)} margins differ from plain Hugging Face, "
                f"by up to {float(gap.max()):.3g} where {float(slack.min()):.3g} is allowed."
            )


def all_of(way: Way, edits: list[PeerEdit]) -> Tensor:
    """The margins of all edits, `batch` at a time."""
    parts = [edits[i : i + way.batch] for i in range(0, len(edits), way.batch)]
    return torch.cat([way.run(part) for part in parts])


def take_turns(
    functions: dict[str, Callable[[], Any]], *, rounds: int = ROUNDS
) -> dict[str, float]:
    """Median seconds of each function over rounds in which all take turns in random order."""
    order, names = random.Random(0), list(functions)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in order.sample(names, len(names)):
            start = time.perf_counter()
            functions[name]()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}
