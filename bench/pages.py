"""How large the report of all archives is, how long it takes to load, and when the explorer shows colours.

`python -m bench.pages` writes `results/pages.json`. One thread; processor time for what is computed here, the
clock for what a browser does (it has processes of its own), each the best of a few, beside the load of the
machine. "After the capture" is what follows it: every candidate scored, packed, sent, read and painted.
"""

import os
import platform
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from finite_calculus.checkpoints import load
from finite_calculus.cli.report import printed_tables
from finite_calculus.explore import Explorer, Session
from finite_calculus.explore.page import as_json
from finite_calculus.explore.question import Question
from finite_calculus.models import attach
from finite_calculus.report.page import render
from finite_calculus.report.sources import read_sources
from native_checks.records import write_json
from tests.helpers.browser import chromium, waiting

ROOT = Path(__file__).parents[1]
RECORD = ROOT / "results" / "pages.json"
MODEL = "smollm2-135m-instruct"
ENTRY = "Entity {:02d}: {} "
QUESTION = "Question: What is the label of Entity 02? Answer:"
REPEATS = 3
# In the page: when its first tokens were coloured, on the clock that starts with the navigation.
WATCH = """
const watch = () => {
  const token = document.querySelector('.token');
  if (token && token.style.backgroundColor) window.coloured = performance.now();
  else requestAnimationFrame(watch);
};
requestAnimationFrame(watch);
"""
LOADED = "return performance.getEntriesByType('navigation')[0].loadEventEnd"


def report_row(browser: Any, folder: Path) -> dict[str, Any]:
    """The report of everything in `results/`: made once, loaded a few times from disk."""
    start = time.process_time()
    sources = read_sources([ROOT / "results"])
    page = folder / "report.html"
    page.write_text(render(sources, beside=printed_tables), encoding="utf-8")
    made = time.process_time() - start
    loaded, spent = [], []
    for _ in range(REPEATS):
        browser.get("about:blank")
        before = _browser_seconds(browser)
        browser.get(page.as_uri())
        waiting(browser, f"{LOADED} > 0")
        loaded.append(browser.execute_script(LOADED) / 1000)
        after = _browser_seconds(browser)
        spent.append(after - before if after > before else after)
    return {
        "records": len(sources),
        "bytes": page.stat().st_size,
        "figures": browser.execute_script("return document.querySelectorAll('figure').length"),
        "tables": browser.execute_script("return document.querySelectorAll('table,.long').length"),
        "make_processor_s": made,
        "load_s": min(loaded),
        "load_processor_s": min(spent),
    }


def _browser_seconds(browser: Any) -> float:
    """Processor time of the browser's process that shows the page; another page may be in a new one."""
    metrics = browser.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return {each["name"]: each["value"] for each in metrics}["ProcessTime"]


def captured_and_scored(session: Session, prompt: str) -> tuple[float, float, Question, str]:
    """Processor time of a capture, and of scoring and packing after it, with what they made."""
    start = time.process_time()
    capture = session.instrument.capture(prompt, answer=" A", versus=" B")
    captured = time.process_time()
    question = Question(prompt, capture, session.instrument.tokenizer)
    text = as_json(question.state(MODEL, chat=True))
    return captured - start, time.process_time() - captured, question, text


def explorer_row(browser: Any, session: Session, entities: int) -> dict[str, Any]:
    """What follows the capture of a prompt with so many entities."""
    prompt = "".join(ENTRY.format(n + 1, "AB"[n % 2]) for n in range(entities)) + QUESTION
    # Each time anew: a capture keeps what was prepared from it.
    runs = [captured_and_scored(session, prompt) for _ in range(REPEATS)]
    question, text = runs[0][2:]
    painted = []
    session.ask(prompt, " A", " B", chat=False)
    with Explorer(session) as explorer:
        for _ in range(REPEATS):
            browser.get(explorer.address)
            waiting(browser, "return window.coloured > 0")
            painted.append(browser.execute_script("return window.coloured") / 1000)
    return {
        "tokens": len(question.capture.ids),
        "candidates": len(question.table),
        "bytes": len(text),
        "capture_processor_s": min(run[0] for run in runs),
        "score_processor_s": min(run[1] for run in runs),
        "page_s": min(painted),
    }


def main() -> None:
    """Measure and write the record."""
    torch.set_num_threads(1)
    model, tokenizer = load(MODEL)
    with tempfile.TemporaryDirectory() as kept, chromium(Path(kept)) as browser:
        browser.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": WATCH})
        browser.execute_cdp_cmd("Performance.enable", {})
        before = os.getloadavg()[0]
        with attach(model, tokenizer=tokenizer) as instrument:
            session = Session(instrument, MODEL)
            explorer = [explorer_row(browser, session, entities) for entities in (17, 35)]
        report = report_row(browser, Path(kept))
        record = {
            "command": "python -m bench.pages",
            "model": MODEL,
            "processor": platform.processor() or platform.machine(),
            "cores": os.cpu_count(),
            "load_average": [before, os.getloadavg()[0]],
            "repeats": REPEATS,
            "browser": browser.capabilities["browserVersion"],
            "explorer": explorer,
            "report": report,
        }
    print(record, flush=True)
    write_json(record, RECORD)


if __name__ == "__main__":
    sys.exit(main())
