"""The exported script finds the recorded numbers; the saved page holds the session and asks nobody."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import finite_calculus as package
from finite_calculus.explore import Session
from finite_calculus.explore.page import live_page, saved_page
from tests.explore.conftest import DONOR

HOSTILE = "</script><img src=x onerror=alert(1)>\u2028\u202e'\"\\ {SCRIPT} {DATA}"


@pytest.fixture(scope="module")
def exported(asked: Session) -> tuple[list[dict], str]:
    """What was done in a session with one step of each kind, and its script."""
    asked.donor(DONOR)
    asked.execute(["odds:3.0:5-7:64"])
    asked.execute(["delete:1:4", "donorKV:2:7:0.5"])
    asked.steer(2, 1, ["7:3=2.5"])
    asked.evict(0.05, "0-2")
    asked.calibrate()
    return asked.state()["steps"], asked.script()["text"]


def test_the_script_finds_every_number_again(exported, tmp_path: Path) -> None:
    steps, text = exported
    script = tmp_path / "session.py"
    script.write_text(text, encoding="utf-8")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, env=environment, cwd=tmp_path
    )
    assert run.returncode == 0, run.stdout + run.stderr
    printed = [json.loads(line) for line in run.stdout.splitlines()]
    assert [line["step"] for line in printed[1:]] == [step["title"] for step in steps]
    assert len(printed) == 6
    for line, step in zip(printed[1:], steps, strict=True):
        assert line["now"] == line["recorded"] == step["numbers"]


def test_a_number_that_differs_is_noticed(exported, capsys) -> None:
    _, text = exported
    compare = "import json\n" + text[text.index("def compare(") : text.index("model, tokenizer =")]
    names: dict = {}
    exec(compare, names)
    assert names["compare"]("a", {"x": 0.5}, {"x": 0.5})
    assert not names["compare"]("a", {"x": 0.5}, {"x": 0.25})
    assert capsys.readouterr().out.count('"recorded"') == 2


def test_a_script_defines_what_it_calls_and_nothing_else(session: Session) -> None:
    session.execute(["odds:3:5:64"])
    text = session.script()["text"]
    assert "def executed(" in text
    for other in ("steered", "evicted", "calibrated", "from_donor"):
        assert other not in text


def test_texts_in_a_script_and_a_page_are_data(session: Session) -> None:
    session.ask(HOSTILE, "A", "B", chat=False)
    text = session.script()["text"]
    names = {"prompt": None}
    line = next(each for each in text.splitlines() if each.startswith("prompt = "))
    exec(line, names)
    assert names["prompt"] == HOSTILE
    page = session.page("")["text"]
    assert page.count("</script>") == 2
    assert "<img" not in page
    data = page.split('id="data">', 1)[1].split("</script>", 1)[0]
    assert json.loads(data)["prompt"] == HOSTILE
    assert "\u2028" not in page
    assert "\u202e" not in page


def test_no_script_of_a_page_takes_a_text_as_markup() -> None:
    markup = re.compile(
        r"innerHTML|insertAdjacentHTML|outerHTML\s*=|document\.write|DOMParser|\beval\b"
    )
    folder = Path(package.__file__).parent
    scripts = [*folder.glob("explore/assets/*.js"), *folder.glob("report/assets/*.js")]
    assert len(scripts) >= 7
    assert [path.name for path in scripts if markup.search(path.read_text(encoding="utf-8"))] == []


def test_a_saved_page_may_ask_nobody(session: Session) -> None:
    page = session.page("")["text"]
    policy = page.split('http-equiv="Content-Security-Policy" content="', 1)[1].split('"', 1)[0]
    assert "connect-src 'none'" in policy
    assert "default-src 'none'" in policy
    assert "http-equiv" not in live_page()
    assert saved_page(session.state()) == page
