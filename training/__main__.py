"""Train the embedded checkpoint: a small Qwen2 on the synthetic tasks, from a seed, resumable.

python -m training --out runs/embedded            # train, or go on where it stopped
python -m training --out runs/embedded --install  # then copy the result into the package
"""

import argparse
from dataclasses import asdict
from pathlib import Path

import torch

from training.loop import train
from training.result import install
from training.settings import Settings


def main() -> None:
    """Parse the command line; every field of Settings is an option."""
    parser = argparse.ArgumentParser(
        prog="python -m training", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument(
        "--out", type=Path, required=True, help="directory of states and of the result"
    )
    parser.add_argument("--install", action="store_true", help="copy the result into the package")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--save-every", type=int, default=250)
    parser.add_argument("--report-every", type=int, default=50)
    for name, value in asdict(Settings()).items():
        if isinstance(value, int | float):
            parser.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    fields = {name: getattr(options, name) for name in asdict(Settings()) if hasattr(options, name)}
    if not (options.out / "embedded").exists():
        train(
            Settings(**fields),
            options.out,
            save_every=options.save_every,
            report_every=options.report_every,
        )
    if options.install:
        install(options.out)


if __name__ == "__main__":
    main()
