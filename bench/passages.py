"""Edits that several queries see, at every layer of a real checkpoint: predicted beside executed.

`python bench/passages.py NAME` writes `results/passages/NAME.json`: at each layer odds times four and a
deletion, seen by the queries of an answer of four tokens, and by every query of a span in the middle of the
prompt. The local error of every query is held to its derived bound; the effect is a prediction.
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import torch

from finite_calculus.checkpoints import load
from finite_calculus.models import Delete, Margin, Odds, attach, local_check
from native_checks.records import write_json

PROMPT = "Rome is in Italy and Berlin is in Germany. The capital of France is"
ANSWER, OTHER = " Paris, of course", " London"
SPAN = range(6, 12)
RESULTS = Path(__file__).parents[1] / "results" / "passages"


def rows_of(instrument, passage, token: int) -> list[dict]:
    """One row for each edit: predicted, executed, and how its queries stand to their bounds."""
    rows = []
    for layer in passage.numbers:
        edits = [Odds(layer, (token,), 4.0), Delete(layer, (token,))]
        outcomes = instrument.execute_passage(passage, edits)
        for edit, outcome in zip(edits, outcomes, strict=True):
            checks = [local_check(edit, query) for query in outcome.queries]
            rows.append(
                {
                    "layer": layer,
                    "edit": edit.name,
                    "predicted": passage.predict(edit).effect,
                    "executed": outcome.effect,
                    "queries": len(checks),
                    "beyond": sum(check.beyond for check in checks),
                    "unlikely": sum(check.unlikely for check in checks),
                    "nearest": max(check.error / check.bound for check in checks),
                }
            )
        print(rows[-1], flush=True)
    return rows


def main(name: str) -> None:
    """Both passages of one checkpoint."""
    torch.set_num_threads(1)
    model, tokenizer = load(name)
    with attach(model, tokenizer=tokenizer) as instrument:
        objective = instrument.log_probability(ANSWER)
        other = tokenizer(OTHER, add_special_tokens=False)["input_ids"][0]
        margin = Margin(objective.answer[0], other)
        (place,) = instrument.span(PROMPT, " France")
        answer = instrument.passage(PROMPT, objective)
        span = instrument.passage(PROMPT, margin, readers=SPAN)
        passages = {
            "answer of four tokens": rows_of(instrument, answer, place),
            "span of six queries": rows_of(instrument, span, SPAN.start - 2),
        }
    record = {
        "model": name,
        "command": f"python bench/passages.py {name}",
        "made_with": {key: version(key) for key in ("torch", "transformers")},
        "passages": passages,
    }
    print(write_json(json.loads(json.dumps(record)), RESULTS / f"{name}.json"))


if __name__ == "__main__":
    main(sys.argv[1])
