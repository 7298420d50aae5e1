"""How many inputs the fuzzers tried, what was refused and in which words, and what they found.

    python -m bench.fuzz --save results/faults/fuzz.json

Three fuzzers. `parsers` draws inputs of every target of `tests.helpers.fuzzing` with hypothesis. `lines`
draws command lines of every command, in a process of their own without sockets, with words, numbers and paths
that users get wrong. `bytes` is atheris, guided by coverage, on the targets that read bytes; it needs an
environment with atheris (`--atheris PYTHON`) and is left out without one.

A finding is an error that is no refusal of the target's kind, a refusal that nobody could read, a traceback
or an exit code that is not documented; each is printed with its input, and ends this with exit code 1.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from bench.fuzz_lines import fuzz_lines
from tests.helpers.fuzzing import TARGETS, attempt

ROOT = Path(__file__).parents[1]
# Of targets whose inputs are files of models: an execution takes many times longer.
SLOW = {"captures": 5, "llama2.c headers": 10, "GGUF headers": 10, "settings of studies": 3}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000, help="of each parser")
    parser.add_argument("--lines", type=int, default=2_000, help="command lines")
    parser.add_argument("--atheris", type=Path, default=None, help="a Python that has atheris")
    parser.add_argument("--runs", type=int, default=100_000, help="of atheris")
    parser.add_argument("--seed", type=int, default=22)
    parser.add_argument("--save", type=Path, default=None)
    options = parser.parse_args()
    result: dict[str, Any] = {
        "parsers": {
            name: fuzz_parser(name, options.inputs // SLOW.get(name, 1), options.seed)
            for name in TARGETS
        }
    }
    result["lines"] = fuzz_lines(options.lines, options.seed)
    if options.atheris is not None:
        result["bytes"] = fuzz_bytes(options.atheris, options.runs, options.seed)
    result["command"] = (
        f"python -m bench.fuzz --inputs {options.inputs} --lines {options.lines} "
        f"--seed {options.seed}"
        + (f" --atheris PYTHON --runs {options.runs}" if options.atheris else "")
    )
    if options.save is not None:
        options.save.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n")
    kinds = [
        *result["parsers"].values(),
        *result["lines"].values(),
        *result.get("bytes", {}).values(),
    ]
    sys.exit(any(kind["found"] for kind in kinds))


def fuzz_parser(name: str, inputs: int, number: int) -> dict[str, Any]:
    """Inputs of one target, drawn anew, and what came of them."""
    target, kinds = TARGETS[name], Counter[str]()
    found: dict[str, str] = {}
    start = time.thread_time()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as place:

        @seed(number)
        @settings(
            max_examples=inputs,
            phases=[Phase.generate],
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        )
        @given(target.inputs)
        def tried(value: Any) -> None:
            try:
                kinds[attempt(target, value, Path(place))] += 1
            except Exception as error:
                words = f"{type(error).__name__}: {str(error)[:200]}"
                kinds["found"] += 1
                found.setdefault(words, repr(value)[:500])

        tried()
    result = summed(kinds, found, time.thread_time() - start)
    print(
        name, {key: result[key] for key in ("executions", "read", "refused", "found")}, flush=True
    )
    for words, value in found.items():
        print("  FOUND", words, value, flush=True)
    return result


def summed(kinds: Counter[str], found: dict[str, str], seconds: float) -> dict[str, Any]:
    """The counts of a fuzzer as they are saved; `by_words` has the most frequent refusals."""
    counts = Counter(kinds)
    read, wrong = counts.pop("", 0), counts.pop("found", 0)
    by_type: Counter[str] = Counter()
    for words, count in counts.items():
        by_type[words.partition(":")[0]] += count
    return {
        "executions": kinds.total(),
        "read": read,
        "refused": counts.total(),
        "refused_by_type": dict(sorted(by_type.items())),
        "ways_to_refuse": len(counts),
        "by_words": dict(counts.most_common(12)),
        "found": len(found),
        "found_inputs": wrong,
        "findings": found,
        "seconds": round(seconds, 1),
    }


def fuzz_bytes(python: Path, runs: int, number: int) -> dict[str, Any]:
    """atheris on every target that reads bytes, each in a process of its own."""
    import sysconfig

    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT), sysconfig.get_paths()["purelib"]]),
        "OMP_NUM_THREADS": "1",
    }
    results: dict[str, Any] = {}
    for name in (name for name, target in TARGETS.items() if target.read_bytes is not None):
        count = runs // SLOW.get(name, 1)
        words = [python, "-m", "bench.fuzz_bytes", name, count, f"-seed={number}"]
        ended = subprocess.run(
            [*map(str, words), "-rss_limit_mb=4096"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        told = [line for line in ended.stdout.splitlines() if line.startswith("{")]
        results[name] = json.loads(told[-1]) if told else {"executions": 0, "found": 1}
        if ended.returncode or not told:
            results[name] |= {"found": 1, "last_words": ended.stderr[-2000:]}
            print(ended.stderr[-3000:])
        print(name, {k: results[name].get(k) for k in ("executions", "read", "refused", "found")})
    return results


if __name__ == "__main__":
    main()
