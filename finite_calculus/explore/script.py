"""The session as a script of the package's own functions; it prints each number beside the recorded one."""

from finite_calculus.explore.question import Question

_HEAD = '''\
"""A session of `finite-calculus explore`, done again: every number beside what was recorded.

Exit code 1 if one differs. Another machine or another version may round the model's float32 otherwise.
"""

import json
import sys
from math import inf, nan

from finite_calculus.checkpoints import load
from finite_calculus.models import attach
'''
# A function is written out only if a step calls it.
_FUNCTIONS = {
    "executed": '''\
from finite_calculus.models import predict_several
from finite_calculus.search.specs import parse_edit


def executed(edits):
    """Predicted and executed effect of edits that are made together."""
    if len({edit.layer for edit in edits}) == 1:
        (outcome,) = instrument.execute(capture, [tuple(edits)]).outcomes
    else:
        (outcome,) = instrument.execute_several(capture, [tuple(edits)])
    return {"predicted": predict_several(capture, edits).effect, "executed": outcome.effect}
''',
    "from_donor": '''\
from finite_calculus.models import Replace


def from_donor(like, donor, *, keys, values):
    """Replacement by a donor, at the place of a `value` edit and as strong as its factor says."""
    return Replace(like.layer, like.tokens, donor, like.factor, keys=keys, values=values, heads=like.heads)
''',
    "steered": '''\
from finite_calculus.search import steer
from finite_calculus.search.specs import parse_request


def steered(layer, head, ratios):
    """Requested attention ratios at a head, solved and executed."""
    requests = [parse_request(ratio, limit=tokens) for ratio in ratios]
    done = steer(instrument, capture, layer, head, requests)
    return {
        "feasible": done.control.feasible,
        "norm": done.edit_norm,
        "before": list(done.before),
        "achieved": list(done.achieved),
        "executed": done.effect,
    }
''',
    "evicted": '''\
from finite_calculus.cache import evict, execute_evictions


def evicted(budget, protect):
    """What every layer loses within a budget, each executed on its own."""
    plans = evict(capture, budget, relative=True, protect=protect)
    plans = execute_evictions(instrument, capture, plans)
    return {
        "entries": [plan.entries for plan in plans],
        "figures": [plan.figure for plan in plans],
        "executed": [plan.effect or 0.0 for plan in plans],
    }
''',
    "calibrated": '''\
from finite_calculus.search import TOKEN_KINDS, Family, calibrate, donor_family, score


def calibrated(donor):
    """How many candidates were executed for the band, and how many may be trusted."""
    more = () if donor is None else donor_family(donor).kinds
    done = calibrate(instrument, score(capture, Family((*TOKEN_KINDS, *more)))).calibrated
    return {"executed": int((~done.executed.isnan()).sum()), "trusted": int(done.trusted.sum())}
''',
}
_COMPARE = '''

def compare(title, now, recorded):
    """Print one step, and remember whether a number differs."""
    print(json.dumps({"step": title, "now": now, "recorded": recorded}))
    return json.dumps(now) == json.dumps(recorded)

'''


def script_of(model: str, asked: Question) -> str:
    """A script that loads the model, captures the prompts and does every step again."""
    margin = asked.capture.margin
    sides = f"answer={margin.answer}, versus={margin.versus}"
    body = "".join(step.code for step in asked.steps)
    functions = [text for name, text in _FUNCTIONS.items() if f"{name}(" in body]
    lines = [
        f"model, tokenizer = load({model!r}, dtype={asked.capture.layers[0].dtype!r})",
        "instrument = attach(model, tokenizer=tokenizer)",
        f"prompt = {asked.text!r}",
        f"capture = instrument.capture(prompt, {sides})",
        "tokens = len(capture.ids)",
    ]
    if asked.donors:
        lines.append("donors = [")
        for donor in asked.donors:
            lines.append(f"    instrument.capture({donor.text!r}, {sides}),")
        lines.append("]")
    lines.append("same = [")
    baseline = {"baseline": asked.capture.baseline}
    entries = [("baseline", '{"baseline": capture.baseline}', baseline)]
    entries += [(step.title, step.code, dict(step.numbers)) for step in asked.steps]
    for title, code, numbers in entries:
        lines += [
            "    compare(",
            f"        {title!r},",
            f"        {code},",
            f"        {numbers!r},",
            "    ),",
        ]
    lines += ["]", "sys.exit(0 if all(same) else 1)"]
    return "\n".join([_HEAD, *functions]).rstrip("\n") + _COMPARE + "\n" + "\n".join(lines) + "\n"
