"""The selected case once more: every branch alone, from a forgotten prefix, with the edit by its name.

What is confirmed is that the record of the search repeats: the same prompt and checks, the same answers.
"""

from collections.abc import Mapping
from typing import Any

import torch

from finite_calculus.cache import Row as Branch
from finite_calculus.harness import Policy, UnitResult, count
from finite_calculus.models import Edit, Instrument
from finite_calculus.models.kinds import TOKEN_KINDS
from finite_calculus.studies.answer_repair.answers import Checker, expression_of
from finite_calculus.studies.answer_repair.prompts import CasePrompt
from finite_calculus.studies.answer_repair.rows import Confirmation
from finite_calculus.studies.answer_repair.settings import RepairSettings
from finite_calculus.studies.answer_repair.unit import continued, first_words, idle_edit


def confirm_case(
    instrument: Instrument, settings: RepairSettings, prompt: CasePrompt, policy: Policy
) -> UnitResult:
    """Ordinary, source emphasis, no-op and the edit, each as a batch of one row."""
    instrument.forget()
    ids = torch.tensor(prompt.ids)
    versus, _ = first_words(instrument, ids, prompt.target)
    capture = instrument.capture(ids, answer=prompt.target, versus=versus)
    branches = {
        "ordinary": (ids, Branch()),
        "emphasis": (torch.tensor(prompt.emphasised[0]), Branch()),
        "no-op": (ids, Branch((idle_edit(capture),))),
        "ranked": (ids, Branch((selected_edit(policy),))),
    }
    check, rows, tokens = Checker(prompt.case), [], {}
    for name, (given, branch) in branches.items():
        with_capture = capture if branch.edits else None
        tokens[name] = continued(instrument, settings, given, [branch], with_capture).tokens[0]
        answer = check(expression_of(tokens[name], instrument.tokenizer))
        same = answer.expression == policy["expressions"][name]
        rows.append(
            Confirmation(
                prompt.stream,
                prompt.case.name,
                prompt.case.kind,
                name,
                answer.expression,
                answer.passed,
                answer.checks,
                same,
            )
        )
    checks = [
        count("confirmation: prompt and checks are those of the search", _changed(prompt, policy)),
        count("confirmation: expressions of the search", [not row.same_expression for row in rows]),
        count("confirmation: the edited answer passes", [rows[-1].passed != rows[-1].checks]),
        count("no-op: tokens of the ordinary answer", [tokens["no-op"] != tokens["ordinary"]]),
    ]
    return UnitResult({"confirmation": rows}, checks)


def selected_edit(policy: Policy) -> Edit:
    """The edit that the search recorded, by kind, layer and token."""
    kind = next(kind for kind in TOKEN_KINDS if kind.name == policy["edit"])
    return kind.at(int(policy["layer"]), (int(policy["token"]),))


def _changed(prompt: CasePrompt, policy: Policy) -> list[bool]:
    planned: Mapping[str, Any] = policy["manifest"]
    return [value != planned[name] for name, value in prompt.manifest().items()]
