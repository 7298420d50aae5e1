"""The page in a browser: opened from disk, filtered, scrolled and sorted, by keyboard too."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("browser")


@pytest.fixture(scope="module")
def browser(folder: Path) -> Iterator[Any]:
    with chromium(folder) as driver:
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
    assert count.text == "1 of 4"
    find.clear()
    find.send_keys("no entry has this")
    assert count.text == "None of 4 has these words and this status."
    find.clear()
    opened.execute_script(
        "const pick = document.querySelector('.pick'); pick.value = 'failed';"
        "pick.dispatchEvent(new Event('change')); const find = document.querySelector('.find');"
        "find.dispatchEvent(new Event('input'))"
    )
    assert count.text == "1 of 4"
    options = [each.text for each in opened.find_elements("css selector", ".ledger option")]
    assert options == ["all", "failed", "green", "open", "proved"]
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


def test_a_hundred_thousand_rows_draw_only_what_is_in_view(opened: Any) -> None:
    drawn = opened.execute_script(
        """
        const place = document.createElement("div");
        place.className = "long";
        document.querySelector("main").prepend(place);
        const column = { name: "n", numeric: true, text: String, key: (n) => -n, width: 9 };
        viewer.drawTable(place, "many", [column], 100000);
        return place.querySelectorAll(".row").length;
        """
    )
    assert 5 < drawn < 60
    opened.execute_script("document.querySelector('.long .view').scrollTop = 1e9")
    last = "[...document.querySelectorAll('.long .row')].at(-1).textContent"
    waiting(opened, f"return {last} === '99999'")
    assert opened.execute_script("return document.querySelectorAll('.long')[0].innerText").count(
        "\n"
    ) < 60  # fmt: skip
    opened.find_element("css selector", ".long .head button").send_keys("\ue007")
    waiting(opened, "return document.querySelector('.long .row').textContent === '99999'")


def test_a_formula_is_whole_and_scrolls_on_its_own(opened: Any) -> None:
    opened.execute_script("document.querySelector('#entry-main-first').open = true")
    box = "const box = document.querySelector('.statement .scroll'); return "
    assert opened.execute_script(f"{box} box.scrollHeight - box.clientHeight") <= 0
    assert opened.execute_script(f"{box} box.scrollWidth - box.clientWidth") > 0


def test_nothing_is_cut_on_a_narrow_screen(opened: Any) -> None:
    open_all = "for (const each of document.querySelectorAll('details')) each.open = true"
    opened.execute_script(open_all)
    assert too_wide(opened, 500) <= 0


def test_a_drawing_is_kept_in_the_colours_for_print(opened: Any, folder: Path) -> None:
    opened.find_element("css selector", "#explained .save").send_keys("\ue007")
    svg = downloaded(folder, "rotary-geometry.svg")
    assert svg.startswith("<svg")
    assert "#1f2328" in svg
    assert "var(--" not in svg


def test_what_is_printed_holds_what_is_folded_and_no_empty_pages(opened: Any) -> None:
    opened.execute_script("document.querySelector('.long').scrollIntoView()")
    waiting(opened, "return document.querySelectorAll('.long .row').length > 5")
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        shown = "return document.querySelector('#entry-main-second dl').checkVisibility()"
        assert opened.execute_script(shown)
        assert not opened.find_element("css selector", "nav").is_displayed()
        assert opened.find_element("css selector", ".long .head button").is_displayed()
        # Rows that are not drawn leave no room behind.
        empty = """
            const rows = document.querySelector('.long .rows');
            return rows.offsetHeight - rows.children.length * rows.firstChild.offsetHeight;
        """
        assert opened.execute_script(empty) <= 0
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_an_accessibility_check_has_no_serious_finding(opened: Any) -> None:
    opened.execute_script(
        "for (const each of document.querySelectorAll('details')) each.open = true"
    )
    assert serious_findings(opened) == []
