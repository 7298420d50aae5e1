"""Frozen settings of the study of answer repair."""

from typing import Annotated

from pydantic import Field

from finite_calculus.harness import ModelSettings

SEED = 41783


class RepairSettings(ModelSettings):
    """The search and the rate have cases of their own; every arm gets the same number of continuations."""

    study: str = "answer-repair"
    cases: Annotated[int, Field(ge=1, description="Cases that the rate is of.")] = 102
    search_cases: Annotated[int, Field(ge=1, description="Cases searched for an example.")] = 9
    tries: Annotated[
        int, Field(ge=1, description="Executed continuations of each arm and case, at most 3.")
    ] = 3
    tokens: Annotated[int, Field(ge=1, description="Most tokens of a continuation.")] = 32
    seed: Annotated[int, Field(ge=0, description="Seed of cases and random edits.")] = SEED
    batch: Annotated[int, Field(ge=2, description="Executed rows with their control.")] = 2
