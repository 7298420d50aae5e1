"""Our methods as presses of kvpress, beside its own, in an environment of its own.

    python -m bench.kvpress [--texts 2] [--tokens 160] [--out FILE]

kvpress pins an older transformers, so an environment is made for it under build/peers, with this project's
version of torch; `--python` takes one that is there. The texts are this repository's own pages. All presses
keep as many entries of every head; ours and SnapKV look at the last 8 queries.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import torch

from bench.peers import MissingError, Peer, call, environment
from finite_calculus.checkpoints import checkpoint, load
from finite_calculus.checkpoints.status import packaged_directory

ROOT = Path(__file__).parents[1]
MODEL = "smollm2-135m-instruct"
PEER = Peer("kvpress", "kvpress>=0.5,<0.6", "kvpress_methods", needs=("jaxtyping",))


def main() -> int:
    """Make the environment, run, print means and save; exit code 1 if it cannot be had."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=160)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--python", type=Path, help="of an environment that has kvpress")
    options = parser.parse_args()
    _, tokenizer = load(MODEL)
    pages = "\n".join(page.read_text("utf-8") for page in sorted((ROOT / "docs").glob("*.md")))
    ids = torch.tensor(tokenizer(pages)["input_ids"]).split(options.tokens)
    texts = [piece.tolist() for piece in ids[: -1 : max(1, len(ids) // options.texts)]]
    try:
        python = options.python or environment(PEER, Path("build/peers"))
        folder = str(packaged_directory(checkpoint(MODEL), None))
        script = ["-m", f"bench.peer_runs.{PEER.script}", folder]
        out = call([str(python), *script, json.dumps(texts[: options.texts])], "the script failed")
    except MissingError as error:
        print(f"missing: kvpress: {error}")
        return 1
    figures: dict[str, Any] = json.loads(out.splitlines()[-1])
    for keep in sorted({row["keep"] for row in figures["rows"]}, reverse=True):
        for name in dict.fromkeys(row["press"] for row in figures["rows"]):
            some = [r for r in figures["rows"] if (r["press"], r["keep"]) == (name, keep)]
            mean = sum(row["kl"] for row in some) / len(some)
            print(f"{keep:.0%} kept: {name:24} KL {mean:.4f}")
    if options.out is not None:
        command = "python -m bench.kvpress " + " ".join(sys.argv[1:])
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(
            json.dumps({"command": command, "tokens": options.tokens, **figures}, indent=1) + "\n"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
