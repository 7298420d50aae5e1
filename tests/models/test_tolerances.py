"""No tolerance in the tests of native models and checkpoints is a number somebody chose."""

import re
from pathlib import Path

FOLDERS = (Path(__file__).parent, Path(__file__).parents[1] / "checkpoints")
# A keyword with a literal, a comparison with a small literal, and helpers with tolerances of their own.
LITERAL = re.compile(
    r"\b(rtol|atol|rel|abs)\s*=\s*[0-9.]|[<>]=?\s*-?[0-9][0-9.]*e-?[0-9]|assert_close\(|allclose\("
)


def found_in(text: str) -> list[int]:
    return [n for n, line in enumerate(text.splitlines(), 1) if LITERAL.search(line)]


def test_no_tolerance_is_a_literal():
    paths = [path for folder in FOLDERS for path in sorted(folder.glob("*.py"))]
    assert len(paths) > 10
    assert {
        path.name: lines
        for path in paths
        if path != Path(__file__) and (lines := found_in(path.read_text(encoding="utf-8")))
    } == {}


def test_every_spelling_of_a_literal_tolerance_is_found():
    spellings = (
        "assert x == pytest.approx(y, rel=0.05)",
        "torch.testing.assert_close(x, y)",
        "assert np.allclose(x, y)",
        "assert float(apart.max()) < 1e-5",
        "assert apart <= 2.5e-6 * size",
        "assert apart > 1e3",
    )
    assert all(found_in(line) == [1] for line in spellings)
    assert found_in("assert apart <= bound < 3 * spread") == []
