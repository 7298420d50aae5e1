"""A Python program in a process of its own with nothing to reach: no environment, no files, little of all.

The child starts isolated (`-I -S`: no environment variables, no user's or site's packages, no current
directory in its path), in an empty directory, in a session of its own, with no descriptor but its three
standard ones, of which two are files of bounded size. Before it reads anything it limits its own memory,
processor time, files and core dumps; the clock is watched from here. The limits stop a program that runs
away; they are no jail for hostile machine code.
"""

import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from typing import Literal

# The exit code by which a child says that its memory ran out.
_NO_MEMORY = 77
# Set by the child itself, before a byte of input is read: preexec_fn is unsafe beside threads.
_FIRST = f"""\
import os, resource, sys
sys.excepthook = lambda kind, *_: os._exit({_NO_MEMORY} if issubclass(kind, MemoryError) else 1)
for _kind, *_most in ((resource.RLIMIT_AS, %(memory)d, %(memory)d),
                      (resource.RLIMIT_CPU, %(seconds)d, %(seconds)d + 1),
                      (resource.RLIMIT_FSIZE, %(output)d, %(output)d),
                      (resource.RLIMIT_CORE, 0, 0)):
    resource.setrlimit(_kind, tuple(_most))
del _kind, _most
"""
Ended = Literal["finished", "time", "memory", "output", "failed"]


@dataclass(frozen=True)
class Limits:
    """What a child may use: processor seconds, seconds on the clock, bytes of memory and of output."""

    seconds: int = 2
    wall: float = 30.0
    memory: int = 256 << 20
    output: int = 65536

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if not value > 0:
                raise ValueError(f"`{name}` must be positive; got {value}.")


@dataclass(frozen=True)
class Confined:
    """How a child ended, and what it wrote; `reason` says in words why it did not finish."""

    ended: Ended
    output: bytes
    reason: str = ""


def run_confined(program: str, given: bytes = b"", limits: Limits | None = None) -> Confined:
    """Run a program of ours that handles untrusted `given`, which it reads from its standard input."""
    if os.name != "posix":
        raise OSError(f"A confined process needs POSIX resource limits; this system is {os.name}.")
    used = Limits() if limits is None else limits
    with (
        tempfile.TemporaryDirectory() as empty,
        tempfile.TemporaryFile() as stdin,
        tempfile.TemporaryFile() as stdout,
    ):
        stdin.write(given)
        stdin.seek(0)
        try:
            code = subprocess.run(
                [sys.executable, "-I", "-S", "-c", _FIRST % vars(used) + program],
                stdin=stdin,
                stdout=stdout,
                stderr=subprocess.DEVNULL,
                cwd=empty,
                env={},
                close_fds=True,
                start_new_session=True,
                timeout=used.wall,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            return Confined("time", b"", f"longer than {used.wall:g} seconds")
        stdout.seek(0)
        return _judge(code, stdout.read(used.output + 1), used)


def _judge(code: int, output: bytes, limits: Limits) -> Confined:
    if len(output) >= limits.output:
        return Confined("output", b"", f"{limits.output} bytes of output or more")
    if code == 0:
        return Confined("finished", output)
    if code == -signal.SIGXCPU:
        return Confined("time", b"", f"more than {limits.seconds} seconds of the processor")
    if code == _NO_MEMORY:
        return Confined("memory", b"", f"more than {limits.memory >> 20} MiB of memory")
    how = f"signal {-code}" if code < 0 else f"exit code {code}"
    return Confined("failed", b"", f"the process ended with {how}")
