"""Which text of an entry is wrong, told once something of it has failed.

The links of the entry are compared three ways: catalogue statement, hand-written definition, torch code.
"""

from __future__ import annotations

from collections.abc import Iterator

from proofs.entry import Entry
from proofs.generated.links import LINKS
from proofs.generated.scenes import scene_of
from proofs.generated.three_way import Link, Wrong, compare_three, name_wrong
from proofs.numeric.checks import CHECKS
from proofs.numeric.comparison import ReferenceComparison

# An error need not show in every case: some of the adversarial ones have one key, or equal scores.
CASES = 4


def wrong_texts(entry: Entry) -> Iterator[str]:
    """One line for each link of an entry of which a text contradicts the other two."""
    for link in LINKS:
        if link.label == entry.label and (wrong := _verdict(entry, link)) is not Wrong.NOTHING:
            yield f"of the three texts of {link.function} this is wrong: {wrong}"


def _verdict(entry: Entry, link: Link) -> Wrong:
    statement = next(s for s in entry.statements if s.name.startswith(link.statement))
    check = CHECKS[link.function]
    if not isinstance(check, ReferenceComparison):
        raise TypeError(f"{link.function} has no hand-written definition")
    try:
        return name_wrong(compare_three(link, statement, scene_of(entry), check, cases=CASES))
    except (ValueError, ArithmeticError):
        # Assumptions that no case satisfies: the failure that led here names them.
        return Wrong.NOTHING
