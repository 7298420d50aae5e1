"""The embedded model, for tests of tokens."""

from tests.harness.conftest import embedded

__all__ = ["embedded"]
