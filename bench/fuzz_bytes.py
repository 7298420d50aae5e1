"""One target under atheris: `python -m bench.fuzz_bytes NAME RUNS`, in an environment that has it.

Bytes that nobody's rules shaped, guided by which lines of the reader they reach; `bench.fuzz` calls this. The
last line says what was counted, as JSON.
"""

import json
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path


def main(name: str, runs: int, words: list[str]) -> None:
    """Run atheris until it has made its runs, or found something; it does not return."""
    import atheris

    with atheris.instrument_imports(include=["finite_calculus"], enable_loader_override=False):
        from tests.helpers import fuzzing
    from bench.fuzz import summed

    target, kinds, place = fuzzing.TARGETS[name], Counter[str](), Path(tempfile.mkdtemp())
    (place / "corpus").mkdir()
    (place / "corpus" / "whole").write_bytes(target.whole())
    start = time.thread_time()

    def one(data: bytes) -> None:
        try:
            kinds[fuzzing.attempt(target, data, place, target.read_bytes)] += 1
        except Exception:
            kinds["found"] += 1
            raise
        finally:
            if kinds.total() == runs or kinds["found"]:
                found = dict.fromkeys(["an error"] if kinds["found"] else [], repr(data)[:500])
                print(json.dumps(summed(kinds, found, time.thread_time() - start)), flush=True)

    atheris.Setup([sys.argv[0], f"-runs={runs}", *words, str(place / "corpus")], one)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), sys.argv[3:])
