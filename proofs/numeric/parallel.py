"""Work shared among processes, with progress: used by the ledger and the audit."""

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

Progress = Callable[[str, int, int], None]


def parallel(
    report: Callable[[int, int], None], work: Callable[[Any], Any], items: Sequence[Any], jobs: int
) -> Iterator[tuple[Any, Any]]:
    """Run `work` on every item in `jobs` processes, yielding (item, result) in any order.

    `report(done, total)` is called as items finish. The processes are forked, so that what the caller
    has imported and built is there at once; each keeps to one core.
    """
    report(0, len(items))
    if jobs == 1 or len(items) < 2:
        for count, item in enumerate(items, 1):
            yield item, work(item)
            report(count, len(items))
        return
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        pairs = ((work, item) for item in items)
        for count, pair in enumerate(pool.imap_unordered(_call, pairs), 1):
            yield pair
            report(count, len(items))


def _call(pair: tuple[Callable[[Any], Any], Any]) -> tuple[Any, Any]:
    work, item = pair
    return item, work(item)
