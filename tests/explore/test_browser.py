"""The explorer in a browser: typed, picked, executed, undone, exported, and all that by keyboard alone."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from finite_calculus.explore import Explorer
from finite_calculus.models import Odds
from tests.explore.conftest import DONOR, PROMPT
from tests.helpers.browser import (
    chromium,
    complaints,
    downloaded,
    needs_browser,
    requested,
    serious_findings,
    too_wide,
    waiting,
)

pytestmark = needs_browser
ENTER, TAB, RIGHT, SHIFT_RIGHT = "\ue007", "\ue004", "\ue014", "\ue008\ue014\ue000"
HOSTILE = "</script><img src=x onerror=alert(1)>{{ 7 * 7 }} <b>bold</b>"
IDLE = "return document.getElementById('busy').textContent === ''"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Any]:
    with chromium(folder) as driver:
        yield driver


@pytest.fixture
def page(browser: Any, explorer: Explorer) -> Any:
    """The page after a capture."""
    browser.get(explorer.address)
    waiting(browser, "return document.getElementById('model').textContent !== ''")
    capture(browser, PROMPT)
    complaints(browser)  # those of the last test
    return browser


def capture(page: Any, prompt: str, answer: str = "A", versus: str = "B") -> None:
    """Type a question and press Capture."""
    for name, text in (("prompt", prompt), ("answer", answer), ("versus", versus)):
        box = page.find_element("id", name)
        box.clear()
        box.send_keys(text)
    page.find_element("css selector", "#ask button").send_keys(ENTER)
    settled(page)


def settled(page: Any) -> None:
    waiting(page, IDLE)


def press(page: Any, name: str) -> None:
    page.find_element("id", name).send_keys(ENTER)
    settled(page)


def text(page: Any, selector: str) -> str:
    return page.find_element("css selector", selector).text


def pick(page: Any, token: int) -> None:
    page.execute_script("document.querySelectorAll('.token')[arguments[0]].click()", token)
    settled(page)


def choose(page: Any, name: str, value: str) -> None:
    page.execute_script(
        "const box = document.getElementById(arguments[0]); box.value = arguments[1];"
        "box.dispatchEvent(new Event('change'))",
        name,
        value,
    )
    settled(page)


def spelled_out(runs: str) -> list[int]:
    """0–2 7 as 0, 1, 2, 7."""
    ends = [run.split("–") for run in runs.split()]
    return [n for run in ends for n in range(int(run[0]), int(run[-1]) + 1)]


def test_an_example_can_be_captured_as_it_stands(browser: Any, explorer: Explorer) -> None:
    browser.get(explorer.address)
    waiting(browser, "return document.getElementById('model').textContent !== ''")
    press(browser, "example")
    browser.find_element("css selector", "#ask button").send_keys(ENTER)
    settled(browser)
    assert "21 tokens" in text(browser, "#headline")


def test_a_prompt_is_typed_coloured_picked_and_executed(page: Any, explorer: Explorer) -> None:
    session = explorer.session
    assert "“A” against “B”: margin" in text(page, "#headline")
    tokens = page.find_elements("css selector", ".token")
    assert len(tokens) == 21
    painted = "return [...document.querySelectorAll('.token')].filter(t => t.style.backgroundColor).length"
    assert page.execute_script(painted) == 21
    choose(page, "word", "odds")
    choose(page, "layer", "3")
    pick(page, 5)
    assert text(page, "#picked code") == "odds:3:5:64"
    assert text(page, "#picked p").startswith("odds ×64 at token 5 “")
    assert text(page, "#word-says").startswith("Multiply the attention odds")
    edit = Odds(3, (5,), 64.0)
    (outcome,) = session.instrument.execute(session.question.capture, [edit]).outcomes
    press(page, "execute")
    executed = text(page, "#executed .figure").replace("−", "-")
    # Shown with four digits.
    assert float(executed) == pytest.approx(outcome.effect, rel=1e-3)
    assert "within the" in text(page, "#executed .verdict")
    assert len(page.find_elements("css selector", "#steps li")) == 1
    assert page.find_element("id", "error").is_displayed() is False


def test_a_head_and_another_amount_are_coloured_too(page: Any, explorer: Explorer) -> None:
    choose(page, "word", "odds")
    choose(page, "amount", "3")
    choose(page, "head", "1")
    pick(page, 7)
    assert text(page, "#picked code").startswith("odds:")
    assert ".1:7:3" in text(page, "#picked code")
    assert list(explorer.session.question.views) == ["odds:3 -1", "odds:3 1"]


def test_a_stack_is_built_and_undone(page: Any) -> None:
    pick(page, 4)
    press(page, "push")
    pick(page, 7)
    press(page, "push")
    assert len(page.find_elements("css selector", "#stack li")) == 2
    press(page, "execute-stack")
    assert " + " in text(page, "#steps li code")
    press(page, "undo")
    assert len(page.find_elements("css selector", "#stack li")) == 1
    press(page, "clear")
    assert len(page.find_elements("css selector", "#stack li")) == 0
    press(page, "undo")
    assert len(page.find_elements("css selector", "#stack li")) == 1


def test_a_donor_a_ratio_and_a_budget(page: Any, explorer: Explorer) -> None:
    page.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    box = page.find_element("id", "donor-prompt")
    box.clear()
    box.send_keys(DONOR)
    page.find_element("css selector", "#donor-form button").send_keys(ENTER)
    settled(page)
    marked = page.find_elements("css selector", "#compared mark")
    assert [each.text.strip() for each in marked] == ["B", "A"]
    press(page, "add-ratio")
    waiting(page, "return document.getElementById('feasible').textContent.startsWith('Feasible')")
    slider = page.find_element("css selector", ".ratio input[type=range]")
    before = text(page, ".ratio output")
    slider.send_keys(RIGHT * 5)
    waiting(
        page, f"return document.querySelector('.ratio output').textContent !== {json.dumps(before)}"
    )
    press(page, "run-steer")
    press(page, "run-evict")
    titles = [each.text for each in page.find_elements("css selector", "#steps li > code")]
    assert titles[0].startswith("layer 0, head 0: 19:18=")
    assert titles[1] == "evicted within 0.1 of every write"
    assert "Crossed cells" in text(page, "#map-says")
    # Evicted tokens of a layer, as first–last.
    (step,) = explorer.session.question.steps[-1:]
    cells = page.find_elements("css selector", "#steps tbody td:last-child")
    assert [spelled_out(each.get_property("textContent")) for each in cells] == step.detail[
        "tokens"
    ]


def test_candidates_are_listed_and_picked_from_the_list(page: Any) -> None:
    page.execute_script("document.getElementById('all').open = true")
    waiting(page, "return document.querySelectorAll('#all .row').length > 5")
    assert text(page, "#all output") == "1,260 of 1,260 rows"
    row = page.find_element("css selector", "#all .row")
    row.send_keys(ENTER)
    settled(page)
    layer, token, _, kind, _ = (each.text for each in row.find_elements("css selector", "span"))
    word, _, _ = kind.partition(":")
    assert text(page, "#picked code").startswith(f"{word}:{layer}:{token}")


def test_the_keyboard_alone_suffices(page: Any, explorer: Explorer) -> None:
    from selenium.webdriver.common.action_chains import ActionChains

    def keys(words: str) -> None:
        ActionChains(page).send_keys(words).perform()

    def tab_to(condition: str) -> None:
        for _ in range(40):
            if page.execute_script(f"const at = document.activeElement; return {condition}"):
                return
            keys(TAB)
        raise AssertionError(f"Tab never reached {condition}")

    page.execute_script("document.getElementById('versus').focus()")
    tab_to("at.classList.contains('token')")
    keys(RIGHT * 4)
    ActionChains(page).key_down("\ue008").send_keys(RIGHT).key_up("\ue008").perform()
    keys(ENTER)
    settled(page)
    assert ":4-5" in text(page, "#picked code")
    tab_to("at.id === 'map'")
    keys(RIGHT * 3 + ENTER)
    settled(page)
    # The map goes on from what was picked.
    assert ":7:" in text(page, "#picked code") + ":"
    tab_to("at.id === 'execute'")
    keys(ENTER)
    settled(page)
    assert len(explorer.session.question.steps) == 1


def test_an_error_is_said_and_nothing_is_lost(page: Any) -> None:
    capture(page, PROMPT, answer="Answer: A")
    alert = page.find_element("css selector", "[role=alert]")
    assert "must be a single token" in alert.text
    assert len(page.find_elements("css selector", ".token")) == 21
    capture(page, PROMPT)
    assert not alert.is_displayed()


def test_markup_in_a_prompt_is_text(page: Any) -> None:
    capture(page, HOSTILE)
    assert page.find_elements("css selector", "img, #tokens b") == []
    shown = "".join(
        each.get_property("textContent") for each in page.find_elements("css selector", ".token")
    )
    assert "</script><img src=x onerror=alert(1)>" in shown
    assert complaints(page) == []


def test_a_session_is_exported_as_a_script_and_as_a_page(page: Any, folder: Path) -> None:
    pick(page, 4)
    press(page, "execute")
    press(page, "get-script")
    assert "executed([parse_edit(" in downloaded(folder, "session.py")
    headline = text(page, "#headline")
    choose(page, "word", "odds")
    press(page, "get-page")
    saved = folder / "saved.html"
    saved.write_text(downloaded(folder, "session.html"), encoding="utf-8")
    requested(page)
    page.get(saved.as_uri())
    waiting(page, "return document.querySelectorAll('.token').length === 21")
    assert text(page, "#headline") == headline
    assert len(page.find_elements("css selector", "#steps li")) == 1
    choose(page, "word", "delete")
    pick(page, 7)
    assert "delete" in text(page, "#picked")
    assert not page.find_element("id", "ask").is_displayed()
    # Every head of the edit that was looked at when the page was saved, and of no other.
    choose(page, "head", "1")
    error = page.find_element("id", "error")
    assert "saved without these colours" in error.text
    choose(page, "word", "odds")
    assert not error.is_displayed()
    choose(page, "head", "3")
    assert not error.is_displayed()
    assert complaints(page) == []
    assert [url for url in requested(page) if url.startswith(("http", "ws"))] == []


def test_a_page_that_is_loaded_again_shows_the_session(page: Any) -> None:
    pick(page, 4)
    press(page, "push")
    predicted = text(page, "#stack-predicted")
    press(page, "execute")
    page.refresh()
    waiting(page, "return document.querySelectorAll('#steps li').length === 1")
    assert len(page.find_elements("css selector", ".token")) == 21
    assert text(page, "#stack-predicted") == predicted
    assert page.find_element("id", "prompt").get_property("value") == PROMPT


def test_no_request_leaves_the_machine(page: Any, explorer: Explorer) -> None:
    requested(page)
    page.refresh()
    waiting(page, "return document.querySelectorAll('.token').length === 21")
    pick(page, 4)
    asked = requested(page)
    assert f"{explorer.address}pick" in asked
    assert [url for url in asked if not url.startswith((explorer.address, "data:"))] == []
    assert complaints(page) == []


def test_a_wrong_secret_shows_nothing(browser: Any, explorer: Explorer) -> None:
    browser.get(f"http://127.0.0.1:{explorer.port}/{'x' * 43}/")
    assert browser.find_element("tag name", "body").text == "refused"
    complaints(browser)


def test_nothing_is_cut_on_a_narrow_screen(page: Any) -> None:
    pick(page, 4)
    press(page, "execute")
    page.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    press(page, "add-ratio")
    press(page, "run-evict")
    assert too_wide(page, 500) <= 0


def test_an_accessibility_check_has_no_serious_finding(page: Any) -> None:
    pick(page, 4)
    press(page, "execute")
    press(page, "push")
    page.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    press(page, "add-ratio")
    press(page, "run-evict")
    assert serious_findings(page) == []
