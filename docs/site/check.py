"""The built site as a browser reads it: every link leads somewhere, and nothing is fetched."""

from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

# What a browser loads by itself, as opposed to a link that a reader may follow.
_LOADED = {"script": "src", "img": "src", "link": "href", "iframe": "src", "source": "src"}


class _Page(HTMLParser):
    """The anchors of a page, what it links to and what it loads."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if tag in _LOADED and _LOADED[tag] in given:
            self.loaded.append(given[_LOADED[tag]])


def check_site(site: Path) -> tuple[list[str], list[str]]:
    """What is wrong with a built site, and the addresses elsewhere that it links to (none is asked)."""
    pages = {path: _Page(path.read_text(encoding="utf-8")) for path in sorted(site.rglob("*.html"))}
    wrong: list[str] = []
    elsewhere: set[str] = set()
    for path, page in pages.items():
        name = path.relative_to(site).as_posix()
        for target in page.loaded:
            if _is_elsewhere(target):
                wrong.append(f"{name} loads {target}")
            elif not _file(path, target).is_file():
                wrong.append(f"{name} loads {target}, which is not there")
        for target in page.links:
            if _is_elsewhere(target):
                elsewhere.add(target)
                continue
            leads, part = _file(path, target), unquote(urlsplit(target).fragment)
            if leads not in pages:
                if not leads.is_file():
                    wrong.append(f"{name} links to {target}, which is not there")
            elif part and part not in pages[leads].anchors:
                wrong.append(f"{name} links to {target}, which has no such place")
    return wrong, sorted(elsewhere)


def _is_elsewhere(target: str) -> bool:
    parts = urlsplit(target)
    return bool(parts.netloc) or parts.scheme not in ("", "data")


def _file(page: Path, target: str) -> Path:
    path = unquote(urlsplit(target).path)
    return (page.parent / path).resolve() if path else page
