"""The embedded model and one finished run of the joint study, for tests of studies."""

from tests.harness.conftest import _one_thread, copied, embedded, finished, runs

__all__ = ["_one_thread", "copied", "embedded", "finished", "runs"]
