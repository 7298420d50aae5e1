"""A worker process of a run: `python -m finite_calculus.harness.worker`, told what to do on its input."""

import json
import sys

from finite_calculus.harness.executors import join

if __name__ == "__main__":
    join(json.load(sys.stdin))
