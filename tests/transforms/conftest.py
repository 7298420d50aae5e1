"""What holds for every test of transforms."""

import pytest


@pytest.fixture(autouse=True)
def _unchecked_shapes(unchecked_shapes: None) -> None:
    """As in production: the shape checks of jaxtyping know nothing of torch's transforms."""
