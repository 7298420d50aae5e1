"""The kinds of edits that the instrument of Appendix H applies to every token of every layer.

Seven odds multipliers, deletion, value zeroing and ±16 positions in three bands. Of the multipliers the
paper names one, 64; the others here are powers of two on either side.
"""

from finite_calculus.models.edits import BANDS, Delete, Edit, KeyShift, Odds, ScaleValues

# Factors of the odds that a table of scores tries at every token.
MULTIPLIERS = (1 / 16, 1 / 4, 1 / 2, 2.0, 4.0, 16.0, 64.0)
SHIFT = 16

# The kinds of edits that are scored at every token: odds, deletion, value zeroing, turned keys.
TOKEN_KINDS: tuple[Edit, ...] = (
    *(Odds.anywhere(multiplier) for multiplier in MULTIPLIERS),
    Delete.anywhere(),
    ScaleValues.anywhere(0.0),
    *(KeyShift.anywhere(sign * SHIFT, band) for band in BANDS for sign in (1, -1)),
)

# Their writes nearly span those of all kinds: weaker odds move like a deletion or like stronger ones, and
# turned keys along the same vectors.
DIRECTION_KINDS: tuple[Edit, ...] = TOKEN_KINDS[len(MULTIPLIERS) - 2 : len(MULTIPLIERS) + 2]
