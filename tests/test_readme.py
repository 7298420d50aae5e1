"""The README's Python runs as printed."""

import re
from pathlib import Path

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def test_the_readme_examples_run_as_printed_and_say_what_the_text_says(capsys) -> None:
    blocks = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 4
    names: dict = {}
    for block in blocks:
        exec(compile(block, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert printed.count("tensor(") == 5
    assert printed.count("KeyShift(") == 1
    parts = names["parts"]
    recomputed = names["fc"].freeze(
        names["scores"] + names["score_edit"], names["values"] + names["value_edit"]
    )
    gap = (recomputed.output - names["readout"].output - parts.total).abs().max()
    assert gap <= names["torch"].finfo(parts.total.dtype).eps * 4


def test_every_file_the_readme_names_exists() -> None:
    root = Path(__file__).parent.parent
    linked = re.findall(r"\]\(([\w./]+)\)", README)
    assert linked
    assert not [name for name in linked if not (root / name).exists()]
