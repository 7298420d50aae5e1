"""Which case of the search becomes the example: adaptively selected, so no rate is made of it."""

from typing import Any

from finite_calculus.harness import Records
from finite_calculus.studies.answer_repair.rows import Continuation


def select_example(records: Records) -> dict[str, Any]:
    """The first case that fails unedited and under source emphasis, and that a ranked edit repairs.

    Its edit is the first one that does, in the order of the ranking.
    """
    rows = [row for row in records.rows(Continuation) if row.stream == "search"]
    for case in dict.fromkeys(row.case for row in rows):
        first = {row.arm: row for row in rows if row.case == case and row.tried == 1}
        if first["ordinary"].right or first["emphasis"].right:
            continue
        repairs = [r for r in rows if r.case == case and r.arm == "ranked" and r.right]
        for ranked in repairs[:1]:
            expressions = {arm: row.expression for arm, row in first.items()}
            return {
                "case": case,
                "layer": ranked.layer,
                "token": ranked.token,
                "edit": ranked.edit,
                "expressions": expressions | {"ranked": ranked.expression},
                "tried": ranked.tried,
                "manifest": _manifest(records, case),
            }
    return {"case": None}


def _manifest(records: Records, case: str) -> Any:
    """The case as the search planned it: digests of its ids and of its checks."""
    listed = records.manifests["search"]["cases"]
    return next(entry for entry in listed if entry["case"] == case)
