"""A page of the site in a browser: contents, figures, a wide table, a long line of code and a signature."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.browser import chromium, complaints, needs_browser, serious_findings, too_wide

pytestmark = needs_browser
ROOT = Path(__file__).parents[2]
INDEX = """# Top

```{toctree}
:caption: Explanation

page
```
"""
WIDE = "| a column |" + " another column |" * 20
PAGE = f"""# Page

<!-- figure: rotary-geometry -->

<!-- figure: workflow -->

{WIDE}
{"|---" * 21}|
{WIDE}

```python
{"a_long_name = " * 20}1
```

```{{eval-rst}}
.. py:function:: a_function(first_argument: a_long_type_of_it, second_argument: a_long_type_of_it, third: int)

   What it does.
```
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small site, built as the real one is."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "docs" / "site"))
        import make_site
        from figures import with_figures

        folder = tmp_path_factory.mktemp("site")
        pages = {"index.md": INDEX, "page.md": with_figures(PAGE, "page.md")}
        assert make_site.build(pages.items(), folder / "source", folder / "site") == 0
    return folder / "site"


@pytest.fixture(scope="module")
def opened(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with chromium(tmp_path_factory.mktemp("browser")) as driver:
        driver.get((site / "page.html").as_uri())
        yield driver


def test_the_page_opens_from_disk_without_a_complaint(opened: Any) -> None:
    assert complaints(opened) == []
    assert len(opened.find_elements("css selector", "figure svg")) == 2


def test_nothing_is_cut_on_a_narrow_screen_and_figures_keep_their_size(opened: Any) -> None:
    assert too_wide(opened, 500) <= 0
    opened.set_window_size(500, 900)
    widths = opened.execute_script(
        "return [...document.querySelectorAll('figure svg')].map(svg => svg.getBoundingClientRect().width)"
    )
    opened.set_window_size(1200, 900)
    # 21 root units a panel: two panels, and the workflow as wide as 2.3 of them.
    assert [round(width / 16) for width in widths] == [42, 48]


def test_an_accessibility_check_has_no_serious_finding(opened: Any) -> None:
    assert opened.find_elements("css selector", "dt .parameters")
    assert serious_findings(opened) == []
