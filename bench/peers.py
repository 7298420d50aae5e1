"""Time other libraries that edit activations on the work of bench/execution.py, beside plain Hugging Face.

    python -m bench.peers                             # all of them
    python -m bench.peers --only nnsight pyvene       # some
    OMP_NUM_THREADS=1 python -m bench.peers           # one core: on a busy machine, the steadier ratios

An edit replaces the keys and values of two to four tokens in layer 18 of SmolLM2-135M-Instruct by a
donor's; what is wanted is the answer margin after 115 tokens. Each library lives in a virtual environment
of its own, with this project's version of torch, and runs its script of bench/peer_runs/ there. In that
one process it takes turns with plain Hugging Face, whose margins its own must equal within the paper's
tolerance, so that the ratio of the two rates means something also where the rates themselves do not.

  alone      edits a second, one a call, by the library's own hooks
  in 8s      the same, eight a call
  on cache   the last token alone over a patched prefix cache, eight a call: the last query alone reads
             the edit, as in bench/execution.py. What this saves is the cache's doing, so it counts apart.

An environment that is kept is used again; remove it to get the newest version. A library that cannot be
installed, run or trusted is reported as missing, with the reason, and has no figures.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from bench.execution import MODEL, loaded
from finite_calculus.checkpoints import checkpoint
from finite_calculus.checkpoints.status import packaged_directory

ROOT = Path(__file__).parents[1]


class MissingError(Exception):
    """A peer that cannot be timed; the message says why."""


@dataclass(frozen=True)
class Peer:
    """What pip is asked for, None for this project's own environment, and the script that is run.

    `needs` is what the script takes from this repository needs besides.
    """

    name: str
    requirement: str | None
    script: str
    needs: tuple[str, ...] = ()


PEERS = (
    Peer("plain-hf", None, "plain_hf"),
    Peer("transformer-lens-3", "transformer-lens>=3,<4", "transformer_lens_3"),
    Peer("transformer-lens-4", "transformer-lens>=4,<5", "transformer_lens_4"),
    Peer("nnsight", "nnsight", "nnsight"),
    Peer("pyvene", "pyvene", "pyvene"),
)


@dataclass(frozen=True)
class Result:
    """Edits a second of one peer, and of plain Hugging Face in the same process; ratios to the latter.

    `best_ratio` is the better of alone and in batches; what a patched cache adds counts apart.
    """

    name: str
    version: str | None = None
    torch: str | None = None
    transformers: str | None = None
    threads: int | None = None
    edits: int | None = None
    plain_hf_per_second: float | None = None
    alone_per_second: float | None = None
    batched_per_second: float | None = None
    cached_per_second: float | None = None
    alone_ratio: float | None = None
    batched_ratio: float | None = None
    cached_ratio: float | None = None
    best_ratio: float | None = None
    missing: str | None = None


def main() -> None:
    options = arguments()
    console = Console()
    loaded()  # fetched, converted and verified before anybody reads its files
    directory = packaged_directory(checkpoint(MODEL), None)
    results = []
    for peer in [p for p in PEERS if not options.only or p.name in options.only]:
        console.print(f"{peer.name} ...")
        results.append(timed(peer, options.keep_environments, directory, options.edits))
    options.out.write_text(json.dumps([asdict(result) for result in results], indent=1) + "\n")
    console.print(table(results))
    for result in results:
        if result.missing:
            console.print(f"missing: {result.name}: {result.missing}", markup=False)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m bench.peers",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    names = [peer.name for peer in PEERS]
    add("--only", nargs="+", choices=names, metavar="NAME", help=f"some of {', '.join(names)}")
    add("--out", type=Path, default=Path("bench/peers.json"), help="default: %(default)s")
    add("--edits", type=count, default=24, help="of a round, best a multiple of 8; %(default)s")
    add(
        "--keep-environments",
        type=Path,
        default=Path("build/peers"),
        metavar="DIR",
        help="where they are built, and found the next time; default: %(default)s",
    )
    return parser.parse_args()


def count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1; got {text!r}")
    return int(text)


def timed(peer: Peer, keep: Path, directory: Path, edits: int) -> Result:
    """The figures of one peer, or why there are none."""
    try:
        figures = run(peer, environment(peer, keep), directory, edits)
    except MissingError as error:
        return Result(peer.name, missing=str(error))
    rates = figures["rates"]
    ratios = {way: rate / rates["plain"] for way, rate in rates.items()}
    return Result(
        peer.name,
        **{key: figures[key] for key in ("version", "torch", "transformers", "threads")},
        edits=edits,
        plain_hf_per_second=rates["plain"],
        **{f"{way}_per_second": rates.get(way) for way in ("alone", "batched", "cached")},
        **{f"{way}_ratio": ratios.get(way) for way in ("alone", "batched", "cached")},
        best_ratio=max(ratios["alone"], ratios["batched"]),
    )


def environment(peer: Peer, keep: Path) -> Path:
    """The Python of a peer's environment, which is built unless an earlier run has finished it."""
    if peer.requirement is None:
        return Path(sys.executable)
    # The same torch for all, so that ratios differ by what the libraries do.
    torch = importlib.metadata.version("torch").split("+")[0]
    requirements = [f"torch=={torch}", peer.requirement, *peer.needs]
    where = keep.resolve() / peer.name
    python = where / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    ready = where / ".ready"
    if not ready.exists() or ready.read_text() != " ".join(requirements):
        call([sys.executable, "-m", "venv", "--clear", str(where)], "no environment")
        call([str(python), "-m", "pip", "install", "--quiet", *requirements], "not installed")
        ready.write_text(" ".join(requirements))
    return python


def run(peer: Peer, python: Path, directory: Path, edits: int) -> dict:
    """What a peer's script prints last."""
    script = f"bench.peer_runs.{peer.script}"
    out = call([str(python), "-m", script, str(directory), str(edits)], "its script failed")
    return json.loads(out.splitlines()[-1])


def call(command: list[str], otherwise: str) -> str:
    """What a command prints; `otherwise` and the last lines of its error if it fails."""
    outside = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    offline = {"HF_HUB_OFFLINE": "1"} if "pip" not in command else {}
    process = subprocess.run(
        command, cwd=ROOT, env={**outside, **offline}, capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise MissingError(f"{otherwise}: {last_lines(process.stderr)}")
    return process.stdout


def last_lines(text: str, *, most: int = 3) -> str:
    """The end of an error message, without warnings and without the places of this machine."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    tail = [line for line in lines if not line.startswith(("WARNING", "File ", "^"))][-most:]
    short = " / ".join(line[:300] for line in tail)
    return short.replace(str(ROOT), ".").replace(str(Path.home()), "~")


def table(results: list[Result]) -> Table:
    """The results for a terminal."""
    title = "edits a second, × times plain Hugging Face in the same process"
    view = Table(title=title, box=SIMPLE_HEAD)
    view.add_column("library", no_wrap=True)
    for heading in ("version", "plain", "alone", "in 8s", "on cache"):
        view.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        if result.missing:
            view.add_row(result.name, "[bold red]missing[/]")
            continue
        view.add_row(
            result.name,
            result.version,
            f"{result.plain_hf_per_second:.3g}",
            rate_and_ratio(result.alone_per_second, result.alone_ratio),
            rate_and_ratio(result.batched_per_second, result.batched_ratio),
            rate_and_ratio(result.cached_per_second, result.cached_ratio),
        )
    return view


def rate_and_ratio(rate: float | None, ratio: float | None) -> str:
    return "" if rate is None else f"{rate:.3g} ×{ratio:.3g}"


if __name__ == "__main__":
    main()
