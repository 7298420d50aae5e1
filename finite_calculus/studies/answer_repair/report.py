"""Tables."""

from collections.abc import Iterable

from finite_calculus.harness import Records, Table


def report(settings, records: Records) -> Iterable[Table]:
    return []
