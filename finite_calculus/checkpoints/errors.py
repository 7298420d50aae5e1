"""What goes wrong with a checkpoint, as one exception whose message says what to do."""


class CheckpointError(RuntimeError):
    """A checkpoint cannot be fetched, read or trusted."""
