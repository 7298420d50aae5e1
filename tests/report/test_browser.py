"""The page in a browser: opened from disk, filtered, scrolled and sorted, by keyboard too.

Needs Chromium and its driver (Debian's chromium and chromium-driver); without them the tests say so.
"""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
pytestmark = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="no browser is at hand: install chromium and chromium-driver"
)


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    options = selenium.ChromeOptions()
    options.binary_location = BROWSER
    flags = (
        "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
        "--disable-background-networking --disable-component-update --window-size=1200,900"
    )
    for flag in flags.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={tmp_path_factory.mktemp('profile')}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = selenium.Chrome(options, selenium.ChromeService(DRIVER))
    yield driver
    driver.quit()


@pytest.fixture
def opened(browser: Any, page: Path) -> Any:
    browser.get(page.as_uri())
    return browser


def test_the_page_opens_without_a_complaint_or_a_request(opened: Any, page: Path) -> None:
    assert opened.title == "finite_calculus report"
    assert [line for line in opened.get_log("browser") if line["level"] == "SEVERE"] == []
    messages = [json.loads(line["message"])["message"] for line in opened.get_log("performance")]
    asked = [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]
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
    opened.set_window_size(500, 900)
    try:
        wide = opened.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
    finally:
        opened.set_window_size(1200, 900)
    assert wide <= 0


def test_an_accessibility_check_has_no_serious_finding(opened: Any) -> None:
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    opened.execute_script(Path(axe.__file__).with_name("axe.min.js").read_text())
    results = opened.execute_async_script(
        "axe.run().then(results => arguments[arguments.length - 1](results))"
    )
    serious = [
        (each["id"], [node["target"] for node in each["nodes"]][:3])
        for each in results["violations"]
        if each["impact"] in ("serious", "critical")
    ]
    assert len(results["passes"]) > 10
    assert serious == []


def waiting(driver: Any, script: str) -> None:
    """Wait until a script of the page says true."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 20).until(lambda page: page.execute_script(script))
