"""What the harness refuses, by kind."""


class StoreError(ValueError):
    """A file of a run that is damaged, foreign or in the way; it is named and left as it is."""


class ChangedRunError(ValueError):
    """A directory that belongs to a run with another fingerprint."""


class GateShutError(RuntimeError):
    """A preflight that did not pass: nothing may stand on this model."""


class UnitError(RuntimeError):
    """A unit whose computation raised; the log has the traceback."""


class WorkerError(RuntimeError):
    """A process of a run that ended with an error."""
