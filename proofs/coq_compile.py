"""Compiling the Coq library: files are copied to a build directory and compiled in dependency order.

A stamp beside each compiled file says of what it was made, so that only what changed is compiled again.
"""

import hashlib
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

from proofs.coq_source import LIBRARY, Failure, dependencies, enclosing_theorem, source_files

Progress = Callable[[str], None]


_LOCATION = re.compile(
    r'File "\./?([^"]+)", line (\d+), characters [^:]*:\s*\nError:(.*)', re.DOTALL
)
_NO_LIBRARY = re.compile(
    r"Cannot find a physical path[^.]*?prefix\s+(\w+)|Unable to locate library"
)


class MissingLibraryError(RuntimeError):
    """``coqc`` is installed but a library that the proofs import is not."""


class CompileError(RuntimeError):
    """``coqc`` rejected a file; ``failure`` says where."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(str(failure))
        self.failure = failure


def coq_version() -> str | None:
    """The version of the installed Coq, None without one."""
    if shutil.which("coqc") is None:
        return None
    process = subprocess.run(
        ["coqc", "--print-version"], capture_output=True, text=True, check=False
    )
    return process.stdout.split()[0] if process.returncode == 0 and process.stdout else None


@contextmanager
def build_directory(build_dir: Path | None) -> Iterator[Path]:
    """The directory asked for, or a temporary one."""
    if build_dir is not None:
        build_dir.mkdir(parents=True, exist_ok=True)
        yield build_dir
        return
    with tempfile.TemporaryDirectory(prefix="finite-calculus-coq-") as directory:
        yield Path(directory)


def compile_all(source: Path, directory: Path, version: str, jobs: int, say: Progress) -> None:
    """Compile every file as soon as those that it requires are; raises at the first that fails."""
    files = {file.stem: file for file in source_files(source)}
    graph = dependencies(files.values())
    order = TopologicalSorter(graph)
    try:
        order.prepare()
    except CycleError as error:
        raise ValueError(f"the sources require each other in a cycle: {error.args[1]}") from error
    stamps: dict[str, str] = {}
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        running: dict[Future[None], str] = {}
        while order.is_active():
            for name in order.get_ready():
                stamps[name] = _stamp(
                    files[name], version, [stamps[d] for d in sorted(graph[name])]
                )
                running[pool.submit(_compile, files[name], directory, stamps[name], say)] = name
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                future.result()
                order.done(running.pop(future))


def _stamp(file: Path, version: str, below: list[str]) -> str:
    parts = [version.encode(), file.read_bytes(), *(stamp.encode() for stamp in below)]
    return hashlib.sha256(b"\0".join(parts)).hexdigest()


def _compile(file: Path, directory: Path, stamp: str, say: Progress) -> None:
    record = directory / f"{file.stem}.stamp"
    compiled = directory / f"{file.stem}.vo"
    if compiled.exists() and record.exists() and record.read_text() == stamp:
        return
    record.unlink(missing_ok=True)
    (directory / file.name).write_bytes(file.read_bytes())
    start = time.monotonic()
    coqc(file.name, directory)
    record.write_text(stamp)
    say(f"{file.stem} compiled in {time.monotonic() - start:.1f} s")


def coqc(name: str, directory: Path) -> str:
    """What `coqc` prints for a file; raises with the theorem at fault, or the library that is missing."""
    command = ["coqc", "-q", "-w", "none", "-Q", ".", LIBRARY, name]
    process = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False)
    if process.returncode == 0:
        return process.stdout
    output = process.stderr + process.stdout
    missing = _NO_LIBRARY.search(output)
    if missing and missing.group(1) != LIBRARY:
        raise MissingLibraryError(f"a Coq library is missing: {_one_line(output)}")
    located = _LOCATION.search(output)
    if located is None:
        raise CompileError(Failure(name, None, None, _one_line(output)))
    line = int(located.group(2))
    theorem = enclosing_theorem(directory / name, line)
    raise CompileError(Failure(name, line, theorem, _one_line(located.group(3))))


def _one_line(text: str) -> str:
    return " ".join(text.split())[:500]
