"""A session: the one model, the question asked of it now, and what the page can ask for.

Every public method whose name is in `ACTIONS` is an action of the page: it takes plain data, checks it and
returns plain data. All of them run on the server's model thread, one at a time.
"""

from dataclasses import asdict
from typing import Any

import torch

from finite_calculus.explore import caching, judging, steering
from finite_calculus.explore.grid import head_effects, kind_effects
from finite_calculus.explore.page import saved_page
from finite_calculus.explore.question import Donor, Question, pack
from finite_calculus.explore.script import script_of
from finite_calculus.explore.steps import Step
from finite_calculus.explore.wording import code_of, in_words, kind_of
from finite_calculus.models import Capture, Instrument, LocalCheck
from finite_calculus.report.texts import visible
from finite_calculus.search import calibrate


class Session:
    """What a person explores with one attached model; `name` is how the model is loaded again."""

    def __init__(self, instrument: Instrument, name: str) -> None:
        if instrument.tokenizer is None:
            raise ValueError(
                f"`instrument` must have a tokenizer, since prompts are typed; that of {name} has none. "
                f"Attach with attach(model, tokenizer=tokenizer)."
            )
        self.instrument, self.name = instrument, name
        self._question: Question | None = None

    @property
    def question(self) -> Question:
        """What is asked now; refuses if nothing was captured."""
        if self._question is None:
            raise ValueError("A prompt must be captured first; none was. Press Capture.")
        return self._question

    def state(self) -> dict[str, Any]:
        """All that the page shows, or the model alone before the first capture."""
        chat = bool(getattr(self.instrument.tokenizer, "chat_template", None))
        if self._question is None:
            return {"model": self.name, "chat": chat}
        stack = list(self._question.stack)
        picked = self.pick(stack) if stack else None
        return self._question.state(self.name, chat=chat) | {"picked": picked}

    def ask(self, prompt: str, answer: str, versus: str, chat: bool) -> dict[str, Any]:
        """Capture a prompt; the session begins anew."""
        text = self._in_chat(prompt) if chat else prompt
        capture = self._capture(text, answer, versus)
        # In half precision rounding alone moves an effect by more than most edits do.
        half = capture.layers[0].precision.half
        floor = self.instrument.noise_floor(capture) if half else None
        self._question = Question(text, capture, self.instrument.tokenizer, floor)
        return self.state()

    def donor(self, prompt: str) -> dict[str, Any]:
        """Capture a donor prompt for the same two answers; it must have as many tokens."""
        asked = self.question
        margin = asked.capture.margin
        capture = self.instrument.capture(prompt, answer=margin.answer, versus=margin.versus)
        if len(capture.ids) != len(asked.capture.ids):
            raise ValueError(
                f"`donor` must have the prompt's {len(asked.capture.ids)} tokens; it has "
                f"{len(capture.ids)}. Choose words of equal token length."
            )
        decode = self.instrument.tokenizer.decode
        tokens = tuple(decode([token]) for token in capture.ids.tolist())
        asked.donors.append(Donor(prompt, capture, tokens))
        asked.rescore()
        return self.state()

    def colours(self, kind: str, head: int) -> dict[str, Any]:
        """Effects of one kind by layer and token, of one head alone if `head` is not −1."""
        asked = self.question
        template, name = kind_of(kind, asked.donor), f"{kind} {head}"
        if name not in asked.views:
            asked.views[name] = (
                kind_effects(asked.capture, template)
                if head < 0
                else head_effects(asked.capture, template, head)
            )
        return {"name": name, "effects": pack(asked.views[name])}

    def pick(self, edits: list[str]) -> dict[str, Any]:
        """What is predicted of edits that are made together."""
        asked = self.question
        several = asked.edits(edits)
        row = asked.row(edits)
        band = None
        if row is not None and asked.table.downstream is not None:
            entry = asked.table.row(row)
            band = {"corrected": entry.corrected, "band": entry.band, "trusted": entry.trusted}
        return {
            "edits": edits,
            "names": [visible(in_words(edit, asked.table.text)) for edit in several],
            "effect": judging.predicted(asked.capture, several),
            "parts": [asdict(part) for part in judging.parts_of(asked.capture, several)],
            "band": band,
        }

    def execute(self, edits: list[str]) -> dict[str, Any]:
        """Run the model with edits that are made together."""
        asked = self.question
        picked = self.pick(edits)
        done = judging.execute(self.instrument, asked.capture, asked.edits(edits))
        numbers = {"predicted": picked["effect"], "executed": done.effect}
        donor = f"donors[{len(asked.donors) - 1}]"
        code = f"executed([{', '.join(code_of(edit, donor) for edit in edits)}])"
        local = None if done.local is None else _local(done.local)
        asked.steps.append(
            Step(" + ".join(edits), numbers, code, {"local": local, "floor": asked.floor, **picked})
        )
        return {"step": asked.steps[-1].shown(), **picked}

    def stack(self, edits: list[str]) -> dict[str, Any]:
        """Other edits on the stack; `undo` brings those before back."""
        self.question.edits(edits)
        self.question.change(edits)
        return self._stacked()

    def undo(self) -> dict[str, Any]:
        """The stack as it was before the last change."""
        asked = self.question
        if not asked.before:
            raise ValueError("There must be a change of the stack to undo; there is none.")
        asked.stack = asked.before.pop()
        return self._stacked()

    def request(self, layer: int, head: int, ratios: list[str]) -> dict[str, Any]:
        """Whether a head can meet requested ratios, without running the model."""
        return steering.solve(self.question.capture, layer, head, ratios)

    def steer(self, layer: int, head: int, ratios: list[str]) -> dict[str, Any]:
        """Solve requested ratios at a head and run the model with the solution."""
        step = steering.steered(self.instrument, self.question.capture, layer, head, ratios)
        self.question.steps.append(step)
        return {"step": step.shown()}

    def evict(self, budget: float, protect: str) -> dict[str, Any]:
        """What every layer may lose within a budget, each executed on its own."""
        step = caching.evicted(self.instrument, self.question.capture, budget, protect)
        self.question.steps.append(step)
        return {"step": step.shown()}

    def calibrate(self) -> dict[str, Any]:
        """Execute a sample of all candidates, for a band and a verdict on each."""
        asked = self.question
        asked.table = calibrate(self.instrument, asked.table)
        done = asked.table.calibrated
        numbers = {
            "executed": int((~done.executed.isnan()).sum()),
            "trusted": int(done.trusted.sum()),
        }
        code = f"calibrated({f'donors[{len(asked.donors) - 1}]' if asked.donors else None})"
        asked.steps.append(Step("calibrated", numbers, code, {"of": len(asked.table)}))
        return self.state()

    def script(self) -> dict[str, str]:
        """The session as a script."""
        return {"name": "session.py", "text": script_of(self.name, self.question)}

    def page(self, kind: str) -> dict[str, str]:
        """The session as a page that opens without the model; every head of `kind` is in it, too."""
        state, capture = self.state(), self.question.capture
        if kind:
            template = kind_of(kind, self.question.donor)
            for head in range(min(layer.heads for layer in capture.layers)):
                effects = head_effects(capture, template, head)
                state["views"][f"{kind} {head}"] = pack(effects)
        return {"name": "session.html", "text": saved_page(state)}

    def _stacked(self) -> dict[str, Any]:
        stack = list(self.question.stack)
        picked = self.pick(stack) if stack else None
        return {"stack": stack, "undo": len(self.question.before), "picked": picked}

    def _capture(self, text: str, answer: str, versus: str) -> Capture:
        first, second = self._sides(text, answer, versus)
        return self.instrument.capture(text, answer=first, versus=second)

    def _sides(self, text: str, answer: str, versus: str) -> tuple[int | str, int | str]:
        """The two tokens as text or #ID; the two likeliest if neither is given."""
        if answer and versus:
            return _token(answer), _token(versus)
        if answer or versus:
            raise ValueError(
                "`answer` and `versus` must both be given, or neither; got one of them. Without them the "
                "model's two likeliest tokens are compared."
            )
        with torch.no_grad():
            logits = self.instrument.prompt(self.instrument.encode(text)).run_last()[0]
        first, second = logits.topk(2).indices.tolist()
        return first, second

    def _in_chat(self, text: str) -> str:
        """The text as a user's message of the model's chat."""
        tokenizer = self.instrument.tokenizer
        if not getattr(tokenizer, "chat_template", None):
            raise ValueError(f"`chat` needs a model with a chat template; {self.name} has none.")
        message = [{"role": "user", "content": text}]
        return tokenizer.apply_chat_template(message, tokenize=False, add_generation_prompt=True)


ACTIONS = {
    action.__name__: action
    for action in (
        Session.state, Session.ask, Session.donor, Session.colours, Session.pick, Session.execute,
        Session.stack, Session.undo, Session.request, Session.steer, Session.evict, Session.calibrate,
        Session.script, Session.page,
    )
}  # fmt: skip


def _token(text: str) -> int | str:
    return int(text[1:]) if text[:1] == "#" and text[1:].isdigit() else text


def _local(check: LocalCheck) -> dict[str, Any]:
    return {
        "executed": check.executed,
        "error": check.error,
        "bound": check.bound,
        "within": check.within_bound,
    }
