"""Which unit a worker tries next, so that thousands of workers share a million units in one directory.

Nothing that costs as much as there are units is done for every unit. A worker goes through the units that it
believes to be missing, in order; where `CROWD` in a row are finished or in other hands, it goes on at another
place. After `LOOKS` in a row it asks the directory what is missing, if most were finished. If most are in
other hands it waits, longer the longer it has waited, and watches `CROWD` of their claims: only who watches a
claim for a whole lease may take it over. Then it watches others. (So few, since ten thousand may wait; units
that take eight seconds keep a worker busy for as long as it has waited.)
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from finite_calculus.harness import claims

CROWD, LOOKS = 8, 64
# The directory is asked what is missing once for every thousandth of the units that was run here.
SHARE = 1000


@dataclass
class Picking:
    """The missing units, as one worker knows them; `refresh` drops those that are finished meanwhile."""

    missing: list[str]
    refresh: Callable[[list[str]], list[str]]
    total: int = field(init=False)
    place: int = 0
    ran_since: int = 0
    refused: int = 0
    outdated: int = 0
    waited: float = 0.0
    watched: float = 0.0

    def __post_init__(self) -> None:
        self.total = len(self.missing)

    def next(self) -> str:
        """The unit to try."""
        return self.missing[self.place % len(self.missing)]

    def ran(self) -> None:
        """The unit was run here."""
        self.place += 1
        self.ran_since += 1
        self.refused, self.outdated, self.waited, self.watched = 0, 0, 0.0, 0.0
        if self.ran_since * SHARE >= self.total:
            place = self.place % len(self.missing)
            self.missing = self.missing[place:] + self.missing[:place]
            self._ask()

    def was_refused(self, finished: bool) -> float:
        """The unit is finished, or in other hands; how many seconds to wait before the next one."""
        self.place += 1
        self.refused += 1
        self.outdated += finished
        if self.refused < min(CROWD if self.watched else LOOKS, len(self.missing)):
            if self.refused % CROWD == 0:
                self._go_elsewhere()
            return 0.0
        tried, stale = self.refused, 2 * self.outdated >= self.refused
        self.refused = self.outdated = 0
        if stale:
            self._ask()
            self._go_elsewhere()
            return 0.0
        self.place -= min(CROWD, tried)
        return self._pause()

    def _ask(self) -> None:
        self.missing = self.refresh(self.missing)
        self.place, self.ran_since = 0, 0

    def _pause(self) -> float:
        pause = min(max(claims.POLL, self.waited / 4), claims.BEAT)
        self.waited += pause
        self.watched += pause
        if self.watched > claims.LEASE + 2 * claims.BEAT:
            self._ask()
            self._go_elsewhere()
        return pause

    def _go_elsewhere(self) -> None:
        """To any place: the order of units changes no record."""
        self.place, self.watched = random.randrange(len(self.missing) or 1), 0.0
