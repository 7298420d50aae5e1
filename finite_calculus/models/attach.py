"""`with attach(model) as instrument:` — capture, predict, execute, and put everything back.

The instrument is thin: each method calls a function of this package. Nothing is patched at import;
attention is replaced by `attach` and restored when the block ends, also after an exception and when nested,
or by `instrument.close()` where there is no block, or when the last reference to the instrument goes away.
"""

import weakref
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from transformers import PreTrainedModel

from finite_calculus.models.capture import Capture, take_capture
from finite_calculus.models.edits import Edit, Edits
from finite_calculus.models.execute import Path, execute
from finite_calculus.models.floor import Floor
from finite_calculus.models.generate import installed_edits, installed_rows
from finite_calculus.models.install import Installation, check_installed
from finite_calculus.models.latent import prefix_bank
from finite_calculus.models.layer import LayerCapture
from finite_calculus.models.margins import margin, prompt_ids
from finite_calculus.models.noise import noise_floor
from finite_calculus.models.objectives import LogProbability, as_objective, log_probability
from finite_calculus.models.outcomes import Execution
from finite_calculus.models.passage import Passage, second_order, take_passage
from finite_calculus.models.passage_runs import PassageOutcome, execute_passage
from finite_calculus.models.precision import precision_of, widened
from finite_calculus.models.prefix import Prefix, prepare_prefix
from finite_calculus.models.probe import ProbedRotary, probe_rotary
from finite_calculus.models.prompt import PreparedPrompt
from finite_calculus.models.second_order import second_terms
from finite_calculus.models.several import SeveralOutcome, execute_several
from finite_calculus.models.spans import span
from finite_calculus.models.support import UnsupportedModelError, keeps_latents, supported

_PREFIXES = 4


class Instrument:
    """A model with its attention observed; made by `attach`, and of use until it is closed."""

    def __init__(self, model: PreTrainedModel, *, tokenizer: Any = None) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.support = supported(model)
        installation = Installation(model, self.support.sites)
        self.name = installation.name
        self._restore = weakref.finalize(self, installation.remove)
        self._restore.atexit = False
        self._probed: tuple[ProbedRotary, ...] | None = None
        self._prefixes: OrderedDict[tuple[int, bytes], Prefix] = OrderedDict()

    def __enter__(self) -> "Instrument":
        """The instrument, which the end of the block closes."""
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = f"{len(self.support.sites)} layers" if self.attached else "closed"
        return f"Instrument({type(self.model).__name__}, {state})"

    @property
    def attached(self) -> bool:
        """Whether the model still runs through this instrument."""
        return self._restore.alive

    def close(self) -> None:
        """Put the model's attention back and drop the kept prefixes; a second call does nothing."""
        self._restore()
        self.forget()

    @property
    def probed(self) -> tuple[ProbedRotary, ...]:
        """The rotary operator of every layer, probed on first use."""
        self._check_attached()
        if self._probed is None:
            self._probed = probe_rotary(self.model, self.support.sites)
        return self._probed

    def capture(
        self,
        prompt: str | Sequence[int] | Tensor,
        *,
        answer: int | str,
        versus: int | str,
        layers: Sequence[int] | None = None,
        curvature: int = 0,
    ) -> Capture:
        """Capture a baseline at the last token; `layers` defaults to all of them.

        With `curvature`, the second order downstream is captured along so many directions of each layer.
        """
        if isinstance(curvature, bool) or curvature < 0:
            raise ValueError(
                f"`curvature` must be a number of directions, 0 for none; got {curvature!r}."
            )
        chosen = _chosen_layers(layers, len(self.support.sites))
        vocabulary = self.model.config.get_text_config(decoder=True).vocab_size
        answer_margin = margin(answer, versus, vocabulary=vocabulary, tokenizer=self.tokenizer)
        ids = self.encode(prompt)
        return take_capture(
            self.prompt(ids), self.probed, answer_margin, chosen, curvature=curvature
        )

    def encode(self, prompt: str | Sequence[int] | Tensor) -> Tensor:
        """Token ids of a prompt, which must be of this model's vocabulary and fit into its context."""
        vocabulary = self.model.config.get_text_config(decoder=True).vocab_size
        ids = prompt_ids(prompt, vocabulary=vocabulary, tokenizer=self.tokenizer)
        self._check_length(ids)
        return ids

    def _check_length(self, ids: Tensor) -> None:
        """Require ids that the model has positions and frequencies for."""
        config = self.model.config.get_text_config(decoder=True)
        context = getattr(config, "max_position_embeddings", None)
        if context is not None and ids.shape[0] > context:
            raise ValueError(
                f"`prompt` must fit into the context of {context} tokens that this model was made for; it "
                f"has {ids.shape[0]}. Beyond it the model runs and answers nonsense: shorten the prompt."
            )
        limit = self.probed[0].limit
        if limit is not None and ids.shape[0] > limit:
            raise UnsupportedModelError(
                f"`prompt` must not be longer than {limit} tokens, where this model switches its "
                f"rotary frequencies; it has {ids.shape[0]}. Keys on both sides would not compare."
            )

    def execute(
        self,
        capture: Capture,
        edits: Sequence[Edits],
        *,
        batch: int = 32,
        path: Path = "resumed",
        keep_logits: bool = False,
        quiet: bool = True,
    ) -> Execution:
        """Execute counterfactuals natively, each from the untouched prefix (see `execute`)."""
        prompt = self.prompt(capture.ids)
        _check_same_model(capture.layers, prompt)
        return execute(
            prompt, capture, edits, batch=batch, path=path, keep_logits=keep_logits, quiet=quiet
        )

    def execute_several(
        self, capture: Capture, counterfactuals: Sequence[Sequence[Edit]]
    ) -> tuple[SeveralOutcome, ...]:
        """Execute counterfactuals that may edit several layers at once (see `models.several`)."""
        prompt = self.prompt(capture.ids)
        _check_same_model(capture.layers, prompt)
        return execute_several(prompt, capture, counterfactuals)

    def passage(
        self,
        prompt: str | Sequence[int] | Tensor,
        objective: Any,
        *,
        readers: int | range | None = None,
        layers: Sequence[int] | None = None,
    ) -> Passage:
        """Capture the queries that see an edit, and what an objective makes of them (see `models.passage`).

        `readers` are the positions of the queries that see edits, or how many of the last ones; by default
        those that the objective reads. With `LogProbability` the prompt is followed by its answer, but for
        the answer's last token.
        """
        chosen = _chosen_layers(layers, len(self.support.sites))
        objective = as_objective(objective)
        ids = self.encode(prompt)
        if isinstance(objective, LogProbability):
            ids = torch.cat([ids, ids.new_tensor(objective.answer[:-1])])
            self._check_length(ids)
        seen = _readers(readers, objective.queries, ids.shape[0])
        queries = ids.shape[0] - min(seen.start, ids.shape[0] - objective.queries)
        return take_passage(self.prompt(ids, queries=queries), self.probed, objective, seen, chosen)

    def log_probability(self, answer: str | Sequence[int]) -> LogProbability:
        """The log-probability of an answer of several tokens, given as text or ids, as an objective."""
        config = self.model.config.get_text_config(decoder=True)
        return log_probability(answer, vocabulary=config.vocab_size, tokenizer=self.tokenizer)

    def execute_passage(
        self, passage: Passage, edits: Sequence[Edits], *, batch: int = 16, quiet: bool = True
    ) -> tuple[PassageOutcome, ...]:
        """Execute counterfactuals that the passage's readers see (see `models.passage_runs`)."""
        prompt = self.prompt(passage.ids, queries=passage.ids.shape[0] - passage.start)
        _check_same_model([captures[0] for captures in passage.layers], prompt)
        return execute_passage(prompt, passage, edits, batch=batch, quiet=quiet)

    def second_order(self, passage: Passage, edits: Edits) -> float:
        """The second-order term of one counterfactual of a passage, by two backward passes more."""
        prompt = self.prompt(passage.ids, queries=passage.ids.shape[0] - passage.start)
        return second_order(prompt, passage, passage.predict(edits))

    def second_terms(
        self, capture: Capture, writes: Mapping[int, Float[Tensor, "_ model"]]
    ) -> dict[int, Float[Tensor, " writes"]]:
        """½ ΔoᵀHΔo of writes by layer, downstream of a capture (see `models.second_order`)."""
        prompt = self.prompt(capture.ids)
        _check_same_model(capture.layers, prompt)
        return second_terms(prompt, capture.margin, writes)

    def noise_floor(self, asked: Capture | Passage) -> float:
        """What rounding alone may make of an executed effect: one below it is not resolved.

        To first order, and exceeded with probability `noise.FLOOR_DOUBT` if roundings are independent. One
        more pass with a graph; the prefix is shared by an edited row and its control, and adds nothing.
        """
        if isinstance(asked, Capture):
            return noise_floor(self.prompt(asked.ids), lambda logits: asked.margin.of(logits[-1]))
        objective = asked.objective

        def value(logits: Tensor) -> Tensor:
            read = logits[-objective.queries :].double()
            return objective.of(read, read.detach())

        return noise_floor(self.prompt(asked.ids, queries=asked.ids.shape[0] - asked.start), value)

    def floor(self, asked: Capture | Passage) -> Floor:
        """The noise floor of a question, with what it says of executed effects."""
        return Floor(self.noise_floor(asked), precision_of(self.model.dtype).name)

    def installed(
        self, capture: Capture, edits: Edit | Sequence[Edit]
    ) -> AbstractContextManager[None]:
        """A block in which edits stay installed while `model.generate` runs."""
        self._check_attached()
        several = (edits,) if isinstance(edits, Edit) else tuple(edits)
        return installed_edits(self.support.sites, capture, several)

    def installed_rows(
        self, capture: Capture, rows: Sequence[Sequence[Edit]]
    ) -> AbstractContextManager[None]:
        """A block in which each row of a batch that continues the prompt has edits of its own."""
        self._check_attached()
        return installed_rows(self.support.sites, capture, rows)

    def span(self, prompt: str, text: str, *, occurrence: int = 0) -> tuple[int, ...]:
        """Token indices of a text inside a prompt."""
        return span(prompt, text, self.tokenizer, occurrence=occurrence)

    def prompt(self, ids: Tensor, *, queries: int = 1) -> PreparedPrompt:
        """The model with the prefix of a prompt, ready to run its last token, or its last `queries`."""
        return PreparedPrompt(self.model, self.support.sites, self.prefix(ids, queries=queries))

    def prefix(self, ids: Tensor, *, queries: int = 1) -> Prefix:
        """The prefix cache of a prompt: the last few are kept, others computed again."""
        self._check_attached()
        key = (queries, ids.cpu().numpy().tobytes())
        if key not in self._prefixes:
            device = next(self.model.parameters()).device
            self._prefixes[key] = prepare_prefix(self.model, ids.to(device), queries=queries)
            while len(self._prefixes) > _PREFIXES:
                self._prefixes.popitem(last=False)
        self._prefixes.move_to_end(key)
        return self._prefixes[key]

    def forget(self) -> None:
        """Drop the kept prefixes and the unedited batches that belong to them."""
        self._prefixes.clear()

    def _check_attached(self) -> None:
        if not self.attached:
            raise RuntimeError(
                "An instrument must be used inside its `with attach(model)` block, or before `close()`; the "
                "model is as it was. Attach again."
            )
        check_installed(self.support.sites, self.name)


def attach(model: PreTrainedModel, *, tokenizer: Any = None) -> Instrument:
    """Attach the instrument to a native model, or refuse it with a reason.

    Until it is closed the model runs its own eager attention; then its attention implementation, functions
    and hooks are what they were. `with attach(model) as instrument:` closes it at the end of the block.
    """
    return Instrument(model, tokenizer=tokenizer)


def _chosen_layers(layers: Sequence[int] | None, count: int) -> list[int]:
    """Layers in ascending order, each once; all of them by default."""
    if layers is None:
        return list(range(count))
    if not isinstance(layers, Iterable) or isinstance(layers, str):
        raise TypeError(
            f"`layers` must be a sequence of layers, as in [{layers!r}]; got {layers!r}. "
            f"Leave it out for all layers."
        )
    chosen = list(layers)
    wrong = [
        n for n in chosen if not isinstance(n, int) or isinstance(n, bool) or not 0 <= n < count
    ]
    if wrong or not chosen:
        raise ValueError(
            f"`layers` must name layers in 0..{count - 1}; got {layers}. Leave it out for all layers."
        )
    return sorted(set(chosen))


def _readers(readers: int | range | None, read: int, tokens: int) -> range:
    """Positions of the queries that see edits: consecutive, and with a token before them."""
    seen = readers
    if seen is None or (isinstance(seen, int) and not isinstance(seen, bool)):
        seen = range(tokens - (read if seen is None else seen), tokens)
    if not isinstance(seen, range) or seen.step != 1 or not 1 <= seen.start < seen.stop <= tokens:
        raise ValueError(
            f"`readers` must be consecutive positions in 1..{tokens - 1}, as range(4, 7), or how many of "
            f"the last queries see edits; got {readers!r}. Position 0 has nothing before it to read."
        )
    return seen


def _check_same_model(layers: Sequence[LayerCapture], prompt: PreparedPrompt) -> None:
    """Require that a capture, perhaps loaded from a file, belongs to the attached model."""
    for layer in layers:
        own, known = layer.keys[:, : -prompt.prefix.queries], layer.layer < len(prompt.sites)
        if not known or not _same_keys(prompt, layer, own):
            raise ValueError(
                f"`capture` must come from the attached model; the keys of layer {layer.layer} are "
                f"not those that it computes. Capture again with this model."
            )


def _same_keys(prompt: PreparedPrompt, layer: LayerCapture, own: Tensor) -> bool:
    """Whether keys are those of a prepared prefix: bit for bit, or made of latents anew."""
    site = prompt.sites[layer.layer]
    keys, _ = prefix_bank(prompt, site)
    native = widened(keys[0].cpu())
    if keeps_latents(site.module) and native.shape == own.shape:
        return bool((native - own).abs().max() <= layer.key_tolerance)
    return torch.equal(native, own)
