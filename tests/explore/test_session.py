"""What the page is told is what the package computes; undone is undone; refusals say why."""

import math

import pytest
import torch

from finite_calculus.checkpoints import load
from finite_calculus.explore import Session
from finite_calculus.explore.grid import head_effects, kind_effects
from finite_calculus.explore.wording import KINDS, edit_of, kind_of
from finite_calculus.models import (
    Delete,
    Instrument,
    Odds,
    Replace,
    ScaleValues,
    attach,
    predict_several,
)
from finite_calculus.search import TOKEN_KINDS, score
from finite_calculus.search.stack import layer_gradient
from tests.explore.conftest import DONOR, PROMPT

EPS = torch.finfo(torch.float64).eps


def test_the_kinds_that_are_coloured_are_those_of_the_instrument() -> None:
    assert [kind_of(kind, None).name for kind in KINDS] == [kind.name for kind in TOKEN_KINDS]


def test_the_grid_holds_every_candidate_of_the_table_at_its_place(session: Session) -> None:
    asked = session.question
    table = score(asked.capture)
    assert int((asked.grid.row >= 0).sum()) == len(table)
    for kind, layer, token in ((0, 0, 0), (7, 3, 5), (14, 2, 11)):
        row = table.row(int(asked.grid.row[kind, layer, token]))
        assert (row.kind, row.layer, row.tokens) == (TOKEN_KINDS[kind].name, layer, (token,))
        assert float(asked.grid.effect[kind, layer, token]) == row.effect


@pytest.mark.parametrize("kind", ["odds:64", "delete", "value:0", "fast:16"])
def test_a_head_is_coloured_by_its_own_response(session: Session, kind: str) -> None:
    capture, template = session.question.capture, kind_of(kind, None)
    heads = [head_effects(capture, template, head) for head in range(4)]
    together = kind_effects(capture, template)
    for number, layer in enumerate(capture.layers):
        gradient = layer_gradient(layer, dtype=torch.float64)
        contracted = torch.einsum(
            "hw,hkw->hk", gradient, layer.values.double().repeat_interleave(2, 0)
        )
        # A response moves at most 2·max|a| in a head; its terms are sums over keys and width of factors whose
        # scores, up to |s| + log 64, were rounded once.
        scores = 1 + float(layer.scores().abs().max()) + math.log(64)
        size = 2 * float(contracted.abs().max(-1).values.sum())
        slack = (sum(layer.keys.shape[1:]) + 16) * EPS * scores * size
        gap = (sum(each[number] for each in heads) - together[number]).abs()
        assert float(gap.nan_to_num().max()) <= slack
        word, colon, amount = kind.partition(":")
        own = edit_of(f"{word}:{number}.1:3{colon}{amount}", 21, None)
        assert float((heads[1][number, 3] - capture.predict(own).effect).abs()) <= slack


def test_a_pick_is_split_certified_and_predicted(session: Session) -> None:
    capture = session.question.capture
    picked = session.pick(["fast:2:5-7:16"])
    (part,) = picked["parts"]
    exact = predict_several(capture, [edit_of("fast:2:5-7:16", 21, None)]).effect
    assert picked["effect"] == exact
    assert abs(part["effect"] - part["first_order"]) <= part["bound"] < math.inf
    # Three summands, each of the size of the largest.
    parts = [part[name] for name in ("key", "value", "interaction")]
    assert abs(sum(parts) - part["effect"]) <= 3 * EPS * max(map(abs, parts))
    assert part["size"] > 0
    assert picked["band"] is None


def test_edits_of_several_layers_are_predicted_and_executed_together(session: Session) -> None:
    edits = ["odds:1:5:4", "delete:3:7"]
    done = session.execute(edits)
    assert [part["layer"] for part in done["parts"]] == [1, 3]
    assert done["step"]["detail"]["local"] is None
    several = [Odds(1, (5,), 4.0), Delete(3, (7,))]
    capture = session.question.capture
    (outcome,) = session.instrument.execute_several(capture, [several])
    assert done["step"]["numbers"]["executed"] == outcome.effect
    assert done["step"]["numbers"]["predicted"] == predict_several(capture, several).effect


def test_an_executed_edit_is_held_to_its_exact_write(session: Session) -> None:
    done = session.execute(["value:3.0,1:2,4:0"])
    outcome = session.instrument.execute(
        session.question.capture, [ScaleValues(3, (2, 4), 0.0, heads=(0, 1))]
    ).outcomes[0]
    assert done["step"]["numbers"]["executed"] == outcome.effect
    local = done["step"]["detail"]["local"]
    assert local["within"]
    assert 0 < local["error"] <= local["bound"] < local["executed"]


def test_a_stack_is_undone_change_by_change(session: Session) -> None:
    session.stack(["odds:1:5:4"])
    both = session.stack(["odds:1:5:4", "delete:1:7"])
    assert both["picked"]["edits"] == both["stack"] == ["odds:1:5:4", "delete:1:7"]
    assert session.stack([])["picked"] is None
    assert [session.undo()["stack"] for _ in range(3)] == [both["stack"], ["odds:1:5:4"], []]
    with pytest.raises(ValueError, match="a change of the stack to undo"):
        session.undo()


def test_a_donor_brings_three_edits_and_is_put_in(session: Session) -> None:
    state = session.donor(DONOR)
    assert state["donor"]["prompt"] == DONOR
    assert state["kinds"][-3:] == ["donorK:1.0", "donorV:1.0", "donorKV:1.0"]
    picked = session.pick(["donorKV:2.1:7:0.5"])
    donor = session.question.donors[0].capture
    edit = Replace(2, (7,), donor, 0.5, heads=(1,))
    assert picked["effect"] == predict_several(session.question.capture, [edit]).effect
    with pytest.raises(ValueError, match=r"must have the prompt's 21 tokens; it has \d+"):
        session.donor(PROMPT + " B")


def test_what_a_head_can_meet_is_what_steering_finds(session: Session) -> None:
    found = session.request(3, 1, ["7:3=4", "16:7=0.5"])
    done = session.steer(3, 1, ["7:3=4", "16:7=0.5"])["step"]["numbers"]
    assert (found["feasible"], found["rank"]) == (True, 2)
    assert done["feasible"]
    # The native ratios are float32, of probabilities whose scores are sums of some forty products.
    assert done["achieved"] == pytest.approx([4, 0.5], rel=64 * torch.finfo(torch.float32).eps)


def test_an_eviction_keeps_its_budget_and_what_is_protected(session: Session) -> None:
    step = session.evict(0.05, "0-2")["step"]
    assert max(step["numbers"]["figures"]) <= 0.05
    assert sum(step["numbers"]["entries"]) > 0
    assert not {0, 1, 2, 20} & {token for own in step["detail"]["tokens"] for token in own}
    assert step["detail"]["within"]


def test_calibration_judges_the_candidates_and_no_others(session: Session) -> None:
    state = session.calibrate()
    assert state["steps"][-1]["numbers"]["executed"] >= 300
    band = session.pick(["odds:1:5:64"])["band"]
    row = session.question.table.row(session.question.row(["odds:1:5:64"]) or 0)
    assert (row.layer, row.tokens, row.kind) == (1, (5,), "odds ×64")
    assert band == {"corrected": row.corrected, "band": row.band, "trusted": row.trusted}
    for other in ("odds:1:5:63", "odds:1:5-6:64", "odds:1.0:5:64"):
        assert session.pick([other])["band"] is None


def test_without_answers_the_two_likeliest_are_compared(session: Session) -> None:
    state = session.ask(PROMPT, "", "", chat=True)
    assert state["baseline"] > 0
    assert "<|user|>" in state["prompt"] or state["prompt"] != PROMPT


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda s: s.ask(PROMPT, "A", "", chat=False), "must both be given, or neither"),
        (lambda s: s.ask(PROMPT, "Answer: A", "B", chat=False), "must be a single token"),
        (lambda s: s.pick(["odds:9:1:2"]), "must be one of the captured layers"),
        (lambda s: s.pick(["odds:0:99:2"]), r"must lie in 0\.\.20"),
        (lambda s: s.pick(["nonsense:0:1:2"]), "must be KIND:LAYER"),
        (lambda s: s.pick([]), "at least one edit"),
        (lambda s: s.pick(["donorK:0:1:1"]), "donorK needs a donor; there is none"),
        (lambda s: s.colours("odds:2", 7), r"`head` must lie in 0\.\.3; got 7"),
        (lambda s: s.request(0, 0, []), "must hold at least one request"),
        (lambda s: s.request(0, 0, ["1:2=-1"]), "must be positive and finite"),
        (lambda s: s.evict(-1.0, ""), "must be a non-negative finite number"),
        (lambda s: s.evict(0.1, "x"), "must be a whole number"),
        (lambda s: Session(s.instrument, "embedded").pick(["odds:0:1:2"]), "must be captured first"),
    ],
)  # fmt: skip
def test_a_refusal_says_what_is_required(asked: Session, ask, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ask(asked)


def test_a_model_without_a_tokenizer_is_refused(instrument: Instrument, monkeypatch) -> None:
    monkeypatch.setattr(instrument, "tokenizer", None)
    with pytest.raises(ValueError, match="must have a tokenizer"):
        Session(instrument, "bare")


def test_a_session_in_half_precision_says_which_effects_are_not_resolved() -> None:
    model, tokenizer = load("embedded", dtype="float16")
    with attach(model, tokenizer=tokenizer) as half:
        session = Session(half, "embedded")
        session.ask(PROMPT, "A", "B", chat=False)
        small = session.execute(["odds:2:3:1.01"])["step"]
        floor = small["detail"]["floor"]
        assert floor == half.noise_floor(session.question.capture)
        assert abs(small["numbers"]["executed"]) < floor
        assert small["detail"]["local"]["within"]
        assert "load('embedded', dtype='float16')" in session.script()["text"]


def test_in_float32_nothing_is_said_of_a_floor(session: Session) -> None:
    assert session.execute(["odds:2:3:1.01"])["step"]["detail"]["floor"] is None
    assert "load('embedded', dtype='float32')" in session.script()["text"]
