"""Stages and the policy between them: what a finished stage decides is hashed, and the next one follows it.

The policy is computed from the saved records of its stage and written once. Units of the next stage are
sealed under its hash, so that records of another policy are foreign to the run, and a policy that was
changed, or that the records no longer give, is refused.
"""

import json
from pathlib import Path
from typing import Any

from finite_calculus.harness import directory
from finite_calculus.harness.errors import StoreError
from finite_calculus.harness.records import stage_records
from finite_calculus.harness.settings import StudySettings
from finite_calculus.harness.study import Policy, Study
from finite_calculus.provenance.digests import digest
from finite_calculus.provenance.files import read_json, replace_file


def policy_file(stage: str) -> str:
    """The name of the policy that a stage leaves."""
    return f"policy-{stage}.json"


def fix_policy(
    study: Study[Any, Any],
    settings: StudySettings,
    out: Path,
    record: directory.RunRecord,
    stage: str,
) -> Policy:
    """The policy of a finished stage, written on first use and held to its records afterwards."""
    policy = dict(study.decide(settings, stage, stage_records(study, settings, out, record, stage)))
    target = out / policy_file(stage)
    content = {
        "stage": stage,
        "run": record.fingerprint,
        "policy": policy,
        "sha256": digest(policy),
    }
    if not target.exists():
        replace_file(target, (json.dumps(content, indent=1) + "\n").encode())
    saved = read_policy(out, stage)
    if digest(saved) != content["sha256"]:
        raise StoreError(
            f"{target.name} must be the policy that the records of {stage} give; it is another one. "
            f"It is left as it is: move it away and run again, or use another directory."
        )
    return saved


def read_policy(out: Path, stage: str) -> Policy:
    """The policy that a stage left; refuses one whose hash is not that of its contents."""
    target = out / policy_file(stage)
    try:
        saved = read_json(target)
        policy, sha256 = saved["policy"], saved["sha256"]
    except (OSError, ValueError, KeyError, TypeError):
        raise StoreError(f"{target.name} is missing or damaged.") from None
    if digest(policy) != sha256:
        raise StoreError(f"{target.name} is damaged: its sha256 is not that of its policy.")
    return policy
