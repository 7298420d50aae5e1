"""The site is built from pages whose links hold and names that have words; what is broken stops the build."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules of docs/site, which is no package."""
    monkeypatch.syspath_prepend(str(ROOT / "docs" / "site"))


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of a few pages."""
    texts = {
        "README.md": "# Top\n\n[a page](docs/page.md#a-part)\n",
        "docs/page.md": "# Page\n\n## A part\n\n[up](../README.md), [phi](../finite_calculus/phi.py)\n",
        "docs/how-to/one.md": "# One\n\n[back](../page.md), [the record](../../results/one.json)\n",
        "finite_calculus/phi.py": "",
        "results/one.json": "{}",
    }
    for name, text in texts.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def relinked(repository: Path, name: str) -> str:
    from pages import own_pages, relinked

    text = (repository / name).read_text()
    return relinked(text, name, own_pages(repository), repository)


def test_links_of_the_repository_hold_in_the_site(repository: Path) -> None:
    assert "[a page](page.md#a-part)" in relinked(repository, "README.md")
    page = relinked(repository, "docs/page.md")
    assert "[up](index.md), [phi](#code-finite_calculus.phi)" in page
    assert "[back](../page.md), the record (`results/one.json`)" in relinked(
        repository, "docs/how-to/one.md"
    )


def test_a_link_that_leads_nowhere_stops_the_build(repository: Path) -> None:
    from pages import BrokenLinkError

    (repository / "docs" / "page.md").write_text("[gone](gone.md)\n")
    with pytest.raises(BrokenLinkError, match=r"docs/page\.md: the link to gone\.md .*not there"):
        relinked(repository, "docs/page.md")


def test_what_stands_in_a_block_of_code_is_no_link(repository: Path) -> None:
    block = "```python\nx = a[0](gone)\n```\n"
    (repository / "docs" / "page.md").write_text(block)
    assert relinked(repository, "docs/page.md") == block


def test_a_public_name_without_words_stops_the_build(monkeypatch: pytest.MonkeyPatch) -> None:
    import api
    import make_site

    from finite_calculus.phi import phi1

    monkeypatch.setattr(api, "PACKAGES", {"finite_calculus": "core"})
    assert api.undocumented() == []
    monkeypatch.setattr(phi1, "__doc__", None)
    with pytest.raises(SystemExit, match=r"must have a docstring; finite_calculus\.phi1 have none"):
        list(make_site.made_pages())


def test_a_figure_that_no_record_has_stops_the_build() -> None:
    from figures import with_figures

    drawn = with_figures("<!-- figure: deletion -->", "page.md")
    assert "<svg" in drawn
    assert "var(--figure-ink" in drawn
    with pytest.raises(ValueError, match=r"page\.md: a figure must be one of .*got 'nothing'"):
        with_figures("<!-- figure: nothing -->", "page.md")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("# One\n\n[no such part](two.md#nowhere)\n", "nowhere"),
        ("# One\n\n```{no-such-directive}\n```\n", "no-such-directive"),
    ],
)
def test_a_warning_of_sphinx_stops_the_build(
    text: str, said: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    import make_site

    index = "# Top\n\n```{toctree}\none\ntwo\n```\n"
    pages = {"index.md": index, "one.md": text, "two.md": "# Two\n"}
    assert make_site.build(pages.items(), tmp_path / "source", tmp_path / "site") != 0
    assert said in capfd.readouterr().err


def test_what_a_browser_would_not_find_or_would_fetch_is_named(tmp_path: Path) -> None:
    from check import check_site

    page = (
        '<a href="two.html#here"></a><a href="two.html#there"></a><a href="gone.html"></a>'
        '<script src="https://example.org/a.js"></script><img src="gone.svg">'
        '<a href="https://example.org/"></a>'
    )
    (tmp_path / "one.html").write_text(page)
    (tmp_path / "two.html").write_text('<p id="here">')
    wrong, elsewhere = check_site(tmp_path)
    assert wrong == [
        "one.html loads https://example.org/a.js",
        "one.html loads gone.svg, which is not there",
        "one.html links to two.html#there, which has no such place",
        "one.html links to gone.html, which is not there",
    ]
    assert elsewhere == ["https://example.org/"]


def test_docstrings_are_shown_as_they_are_written() -> None:
    from docstrings import as_rst

    text = "Σ |d|*p_j is `code`s.\n\n    name   what it is\n\n- one\n  of them\n- two"
    assert as_rst(text) == [
        r"Σ \|d\|\*p\_j is \ ``code``\ s.", "", "::", "", "        name   what it is", "",
        "- one", "  of them", "- two", "",
    ]  # fmt: skip
