"""What holds for every test of transforms."""

import pytest


@pytest.fixture(autouse=True)
def _unchecked_shapes(unchecked_shapes: None) -> None:
    """Users have no shape checks of jaxtyping, which read shapes inside torch's transforms in ways of their own."""
