"""What holds for every test of gradients."""

from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def _unchecked_shapes(unchecked_shapes: None) -> None:
    """gradcheck calls each function hundreds of times; that shapes are right is tested elsewhere."""


@pytest.fixture(autouse=True)
def _repeated_warnings() -> Iterator[None]:
    """Torch gives some warnings once per process; here every test has to do without them."""
    before = torch.is_warn_always_enabled()
    torch.set_warn_always(True)
    try:
        yield
    finally:
        torch.set_warn_always(before)
