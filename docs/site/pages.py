"""The pages of the repository as the site has them: with links that hold there, and with their figures."""

import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from posixpath import normpath, relpath

from figures import ROOT, with_figures

# Pages whose place in the site is another: those outside of docs/, and where Sphinx has a page of its own.
MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGES.md": "changes.md",
    "docs/search.md": "search-and-steer.md",
}
_FENCE = re.compile(r"(^```.*?^```\n)", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s#]+)(#[^)\s]*)?\)")


class BrokenLinkError(ValueError):
    """A page names what is not there."""


def own_pages(root: Path = ROOT) -> dict[str, str]:
    """The place in the site of every page of the repository, by its path there."""
    found = sorted((root / "docs").rglob("*.md"))
    paths = [path.relative_to(root).as_posix() for path in found]
    own = {path: path.removeprefix("docs/") for path in paths if "docs/site/" not in path}
    return own | {name: place for name, place in MOVED.items() if (root / name).exists()}


def staged(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Every page of the repository as the site has it: its place and its text."""
    places = own_pages(root)
    for path, place in places.items():
        text = (root / path).read_text(encoding="utf-8")
        if place == "index.md":
            text = _front(text)
        yield place, with_figures(relinked(text, path, places, root), place)


def relinked(text: str, path: str, places: dict[str, str], root: Path) -> str:
    """A text in which links to pages lead to the site's, links to modules to the API, others are paths."""

    def replace(match: re.Match[str]) -> str:
        words, target, part = match[1], match[2], match[3] or ""
        if re.match(r"[a-z]+:", target):
            return match[0]
        leads = normpath(str(PurePosixPath(path).parent / target))
        if leads.startswith("..") or not (root / leads).exists():
            raise BrokenLinkError(
                f"{path}: the link to {target} leads to {leads}, which is not there."
            )
        if leads in places:
            here = str(PurePosixPath(places[path]).parent)
            return f"[{words}]({relpath(places[leads], here)}{part})"
        module = leads.removesuffix(".py").replace("/", ".")
        if re.fullmatch(r"finite_calculus\.[a-z]\w*", module) and leads.endswith(".py"):
            return f"[{words}](#code-{module})"
        return words if words.strip("`") == leads else f"{words} (`{leads}`)"

    parts = _FENCE.split(text)
    parts[::2] = (_LINK.sub(replace, part) for part in parts[::2])
    return "".join(parts)


def _front(readme: str) -> str:
    """The README without its table of pages, and with the site's navigation."""
    head, _, rest = readme.partition("## Where to read on\n")
    _, heading, limits = rest.partition("## Limits\n")
    navigation = Path(__file__).with_name("navigation.md").read_text(encoding="utf-8")
    return f"{head}{heading}{limits}\n{navigation}"
