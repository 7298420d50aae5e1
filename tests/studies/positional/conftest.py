"""A small run of the positional study on the embedded model, and one captured variant."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from finite_calculus.harness.runner import run
from finite_calculus.models import Instrument, attach
from finite_calculus.studies.positional import STUDY, PositionalSettings
from finite_calculus.studies.positional.plan import plan_sets
from finite_calculus.studies.positional.variant import Variant, capture_variant
from tests.harness.conftest import embedded

__all__ = ["embedded"]


def small(**changes: Any) -> PositionalSettings:
    """One family, one set to calibrate on and one to test on, one shift."""
    values: dict[str, Any] = {"model": "embedded", "tasks": ("ordered",), "shifts": (128,)}
    values |= {"sets": 1, "calibration_sets": 1}
    return PositionalSettings.complete({**values, **changes}, 4)


@pytest.fixture(scope="session")
def start(embedded: tuple[Any, Any]) -> Callable[..., Any]:
    """Run the study on the embedded model."""

    def go(out: Path, settings: PositionalSettings | None = None, **options: Any) -> Any:
        return run(STUDY, settings or small(), out, loaded=embedded, **options)

    return go


@pytest.fixture(scope="session")
def complete(start: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run, to be read only."""
    out = tmp_path_factory.mktemp("positional") / "run"
    start(out)
    return out


@pytest.fixture
def duplicate(complete: Path, tmp_path: Path) -> Path:
    """A copy of the finished run, to be broken."""
    return Path(shutil.copytree(complete, tmp_path / "run"))


@pytest.fixture(scope="session")
def instrument(embedded: tuple[Any, Any]) -> Iterator[Instrument]:
    """The embedded model, attached."""
    with attach(embedded[0], tokenizer=embedded[1]) as attached:
        yield attached


@pytest.fixture
def variants(embedded: tuple[Any, Any], instrument: Instrument) -> list[Variant]:
    """The variants of the first test set, captured at layers 0 and 1."""
    plan = plan_sets(small(), "test", embedded[1], 512)
    tokens = next(iter(plan.units.values()))
    return [capture_variant(instrument, tokens, n, (0, 1)) for n in tokens.text.variants]
