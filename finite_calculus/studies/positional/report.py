"""placeholder"""
from collections.abc import Iterator
from finite_calculus.harness import Records, Table
def report(settings, records) -> Iterator[Table]:
    return iter(())
