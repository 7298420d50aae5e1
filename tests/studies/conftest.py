"""The embedded model and one finished run of the joint study, for tests of studies."""

from tests.harness.conftest import copied, embedded, finished, runs

__all__ = ["copied", "embedded", "finished", "runs"]
