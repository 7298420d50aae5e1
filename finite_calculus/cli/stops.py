"""How a command on a run ends when it cannot do what it was asked: a line, and the exit code of its kind."""

from collections.abc import Callable
from typing import TypeVar

import typer

from finite_calculus.cli.guide import FAILED, INTERRUPTED, REFUSED, SHUT, code_of, words_of

T = TypeVar("T")


def or_stop(make: Callable[[], T]) -> T:
    """The outcome; or 1 for an unsound record or a failing machine, 2 for wrong words, 3 for a shut gate."""
    from finite_calculus.checkpoints import CheckpointError
    from finite_calculus.harness.directory import NoRunError
    from finite_calculus.harness.errors import (
        ChangedRunError,
        GateShutError,
        StoreError,
        UnitError,
        WorkerError,
    )

    codes: dict[type[BaseException], int] = {
        NoRunError: REFUSED,
        ChangedRunError: REFUSED,
        StoreError: FAILED,
        UnitError: FAILED,
        WorkerError: FAILED,
        GateShutError: SHUT,
        CheckpointError: REFUSED,
    }
    try:
        return make()
    except (*codes, ValueError, OSError) as error:
        print(words_of(error))
        known = (code for kind, code in codes.items() if isinstance(error, kind))
        raise typer.Exit(next(known, code_of(error))) from None
    except KeyboardInterrupt:
        print("stopped; finished units are kept, and the same command goes on at the next one")
        raise typer.Exit(INTERRUPTED) from None
