"""The tables of the study of retrieval heads."""

from dataclasses import dataclass

from finite_calculus.harness import Row


@dataclass(frozen=True)
class HeadRow(Row):
    """What every row begins with."""

    task: str
    set: int

    @property
    def cluster(self) -> str:
        """The prompt, which the bootstrap resamples."""
        return f"{self.task}-{self.set}"


@dataclass(frozen=True)
class HeadScore(HeadRow):
    """Attention of one head from the last token to the record that holds the answer, and to the others.

    `other` is the mean over the other records; `first` says whether the target has the most of all.
    """

    layer: int
    head: int
    target: float
    other: float
    first: bool


@dataclass(frozen=True)
class Recall(HeadRow):
    """One prompt with rotary planes of some heads' queries set to zero, all these heads together.

    `heads` is retrieval or other, `band` fast, middle, slow, random (as many planes as slow) or all,
    `queries` last or all. Margins are from the
    strongest wrong candidate to the right one.
    """

    heads: str
    band: str
    queries: str
    planes: int
    control: float
    margin: float


@dataclass(frozen=True)
class SingleLayer(HeadRow):
    """The retrieval heads of one layer edited at the last query alone: predicted and executed effect.

    `resolved` says whether the effect is above the noise floor; None in records of before that was asked.
    """

    layer: int
    heads: int
    band: str
    effect: float
    predicted: float
    local_error: float
    local_bound: float
    resolved: bool | None = None
