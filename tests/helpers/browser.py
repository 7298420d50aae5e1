"""A headless Chromium for the tests of pages, and what they ask of every page.

Needs Chromium and its driver (Debian's chromium and chromium-driver); without them the tests say so.
"""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

BROWSER, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="no browser is at hand: install chromium and chromium-driver"
)


@contextmanager
def chromium(folder: Path) -> Iterator[Any]:
    """A browser whose profile and downloads lie in a folder."""
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    options = selenium.ChromeOptions()
    options.binary_location = BROWSER
    flags = (
        "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
        "--disable-background-networking --disable-component-update --window-size=1200,900"
    )
    for flag in flags.split():
        options.add_argument(flag)
    options.add_argument(f"--user-data-dir={folder / 'profile'}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = selenium.Chrome(options, selenium.ChromeService(DRIVER))
    keep = {"behavior": "allow", "downloadPath": str(folder)}
    driver.execute_cdp_cmd("Page.setDownloadBehavior", keep)
    try:
        yield driver
    finally:
        driver.quit()


def waiting(driver: Any, script: str) -> None:
    """Wait until a script of the page says true."""
    from selenium.webdriver.support.ui import WebDriverWait

    WebDriverWait(driver, 20).until(lambda page: page.execute_script(script))


def complaints(driver: Any) -> list[str]:
    """What the browser complained of since the last question."""
    return [line["message"] for line in driver.get_log("browser") if line["level"] == "SEVERE"]


def downloaded(folder: Path, name: str) -> str:
    """A file that the browser has kept."""
    path = folder / name
    for _ in range(100):
        if path.exists():
            words = path.read_text(encoding="utf-8")
            path.unlink()
            return words
        time.sleep(0.1)
    raise AssertionError(f"{name} was not downloaded")


def requested(driver: Any) -> list[str]:
    """Every address that was asked for since the last question."""
    messages = [json.loads(line["message"])["message"] for line in driver.get_log("performance")]
    return [
        message["params"]["request"]["url"]
        for message in messages
        if message["method"] == "Network.requestWillBeSent"
    ]


def too_wide(driver: Any, width: int) -> int:
    """By how many pixels a page is wider than a narrow screen."""
    driver.set_window_size(width, 900)
    try:
        return driver.execute_script(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )
    finally:
        driver.set_window_size(1200, 900)


def serious_findings(driver: Any) -> list[tuple[str, list[Any]]]:
    """What axe finds serious or critical on the page; it must have looked at something."""
    axe = pytest.importorskip("axe_core_python", reason="axe-core-python is not installed")
    driver.execute_script(Path(axe.__file__).with_name("axe.min.js").read_text())
    results = driver.execute_async_script(
        "axe.run().then(results => arguments[arguments.length - 1](results))"
    )
    assert len(results["passes"]) > 10
    return [
        (each["id"], [node["target"] for node in each["nodes"]][:3])
        for each in results["violations"]
        if each["impact"] in ("serious", "critical")
    ]
