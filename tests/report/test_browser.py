"""The page in a browser: opened from disk, filtered, scrolled and sorted, by keyboard too."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browser import (
    chromium,
    complaints,
    needs_browser,
    requested,
    serious_findings,
    too_wide,
    waiting,
)

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("browser")) as driver:
        yield driver


@pytest.fixture
def opened(browser: Any, page: Path) -> Any:
    browser.get(page.as_uri())
    return browser


def test_the_page_opens_without_a_complaint_or_a_request(opened: Any, page: Path) -> None:
    assert opened.title == "finite_calculus report"
    assert complaints(opened) == []
    asked = requested(opened)
    assert page.as_uri() in asked
    assert [url for url in asked if url.startswith(("http", "ws"))] == []


def test_hostile_text_is_shown_and_does_nothing(opened: Any) -> None:
    assert opened.execute_script("return document.querySelectorAll('img').length") == 0
    title = opened.find_element("css selector", "#entry-main-third summary").text
    assert "</script><img src=x onerror=alert(1)>⟨U+2028⟩⟨U+202E⟩{{ 7 * 7 }}" in title


def test_the_ledger_is_filtered_by_words_and_status(opened: Any) -> None:
    find = opened.find_element("css selector", ".ledger .find")
    find.send_keys("second")
    count = opened.find_element("css selector", ".ledger .count")
    assert count.text == "1 of 3"
    find.clear()
    opened.execute_script(
        "const pick = document.querySelector('.pick'); pick.value = 'failed';"
        "pick.dispatchEvent(new Event('change')); const find = document.querySelector('.find');"
        "find.dispatchEvent(new Event('input'))"
    )
    assert count.text == "1 of 3"
    shown = opened.find_elements("css selector", ".ledger .entry:not([hidden]) summary")
    assert ["main:third" in each.text for each in shown] == [True]


def test_a_link_opens_the_entry_that_it_names(opened: Any) -> None:
    opened.execute_script("location.hash = '#entry-main-second'")
    waiting(opened, "return document.querySelector('#entry-main-second').open")


def test_a_long_table_is_drawn_as_it_scrolls_and_sorts_by_its_heads(opened: Any) -> None:
    opened.execute_script("document.querySelector('.long').scrollIntoView()")
    waiting(opened, "return document.querySelectorAll('.long .row').length > 5")
    drawn = opened.execute_script("return document.querySelectorAll('.long .row').length")
    total = opened.find_element("css selector", ".long output").text
    rows = int(total.split(" of ")[1].split()[0].replace(",", ""))
    assert drawn < 60 < rows
    cells = "[...document.querySelectorAll('.long .row span')]"
    cut = f"return {cells}.filter(cell => cell.scrollWidth > cell.clientWidth)"
    assert opened.execute_script(f"{cut}.map(cell => cell.textContent)") == []
    first = "return document.querySelector('.long .row').textContent"
    before = opened.execute_script(first)
    opened.execute_script("document.querySelector('.long .view').scrollTop = 26 * 100")
    waiting(opened, f"return document.querySelector('.long .row').textContent !== {before!r}")
    head = opened.find_elements("css selector", ".long .head button")[3]
    opened.execute_script("arguments[0].focus()", head)
    head.send_keys("\ue007")  # Enter
    column = "return [...document.querySelectorAll('.long .row')].map(row => row.children[3].textContent)"
    ascending = [float(text) for text in opened.execute_script(column)]
    assert ascending == sorted(ascending)


def test_nothing_is_cut_on_a_narrow_screen(opened: Any) -> None:
    assert too_wide(opened, 500) <= 0


def test_an_accessibility_check_has_no_serious_finding(opened: Any) -> None:
    assert serious_findings(opened) == []
