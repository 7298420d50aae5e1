"""How the time of sparse responses grows with tokens and spans, beside reading the inputs once."""

import subprocess
import sys
from pathlib import Path

import pytest

from bench.attention import contractions, read
from finite_calculus.studies.runtime.attention import draw, sparse

TOKENS = [1024, 4096, 16_384, 65_536, 131_072]
LONGEST = (131_072, 16_384)
# Growth of the peak of resident memory, in KB, which Linux tells; a small run first loads every kernel.
PEAK = """
import re, torch
from pathlib import Path
from finite_calculus.studies.runtime.attention import draw, sparse
def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
with torch.inference_mode():
    sparse(draw(1024, 64))
    inputs = draw({}, {})
    before = peak()
    sparse(inputs)
    print(peak() - before)
"""
SPANS = [256, 1024, 4096, 16_384, 65_536]


@pytest.mark.parametrize("tokens", TOKENS)
def test_growth_with_tokens(compare, tokens: int):
    inputs = draw(tokens, 1024)
    compare(
        f"growth with tokens, N={tokens}, C=1024",
        lambda: sparse(inputs),
        lambda: read(inputs),
        named="reading K, V, donors",
    )


@pytest.mark.parametrize("spans", SPANS)
def test_growth_with_spans(compare, spans: int):
    inputs = draw(16_384, spans)
    compare(
        f"growth with spans, N=16384, C={spans}",
        lambda: sparse(inputs),
        lambda: read(inputs),
        named="reading K, V, donors",
    )


def test_long_context(compare):
    inputs = draw(*LONGEST)
    compare(
        "long context, N=131072, C=16384",
        lambda: sparse(inputs),
        lambda: read(inputs),
        named="reading K, V, donors",
        target=1 / 3,
    )


def test_long_context_beside_its_matrix_products(compare):
    """What no evaluation can do without: how much of the time is not the calculus."""
    inputs = draw(*LONGEST)
    compare(
        "long context, N=131072, C=16384",
        lambda: sparse(inputs),
        lambda: contractions(inputs),
        named="its four matrix products alone",
    )


def test_the_matrix_products_of_a_long_context(compare):
    """The floor of the row above: where the products take more than three reads, so does everything."""
    inputs = draw(*LONGEST)
    compare(
        "the four matrix products alone, N=131072, C=16384",
        lambda: contractions(inputs),
        lambda: read(inputs),
        named="reading K, V, donors",
    )


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's /proc")
def test_memory_of_a_long_context():
    """Beyond its inputs the longest context needs less than 200 MB, in a process of its own."""
    process = subprocess.run(
        [sys.executable, "-c", PEAK.format(*LONGEST)], capture_output=True, text=True, check=True
    )
    megabytes = int(process.stdout) / 1024
    print(f"memory beyond the inputs, N={LONGEST[0]}, C={LONGEST[1]}: {megabytes:.0f} MB")
    assert megabytes < 200
