"""`python docs/site/make_site.py` makes the documentation as a site in build/site, without a network.

Pages of the repository, the API from docstrings, commands, the catalogue, and figures from saved records. A
warning, a link that leads nowhere and a public name without a word are errors.
"""

import shutil
import sys
from collections.abc import Iterable
from pathlib import Path

_HERE = Path(__file__).parent
sys.path[:0] = [str(_HERE), str(_HERE.parents[1])]

from accessible import make_accessible  # noqa: E402
from check import check_site  # noqa: E402
from pages import ROOT, BrokenLinkError, staged  # noqa: E402

BUILD = ROOT / "build"


def made_pages() -> Iterable[tuple[str, str]]:
    """The pages that nobody writes."""
    from api import PACKAGES, api_pages, undocumented

    missing = undocumented()
    if missing:
        raise SystemExit(
            f"Every public name must have a docstring; {', '.join(missing)} have none."
        )
    from catalogue import catalogue_page
    from commands import commands_page

    yield from api_pages()
    listed = "\n".join(f"api/{page}" for page in PACKAGES.values())
    yield "api.md", f"# The package\n\nEvery public name.\n\n```{{toctree}}\n{listed}\n```\n"
    yield "catalogue.md", catalogue_page()
    yield "commands.md", commands_page()


def build(pages: Iterable[tuple[str, str]], source: Path, site: Path) -> int:
    """Write the pages, run Sphinx on them and check what it made; the exit code."""
    from sphinx.cmd.build import build_main

    for folder in (source, site):
        shutil.rmtree(folder, ignore_errors=True)
    for place, text in pages:
        (source / place).parent.mkdir(parents=True, exist_ok=True)
        (source / place).write_text(text, encoding="utf-8")
    words = ["-q", "-W", "--keep-going", "-b", "html", "-c", str(_HERE), "-d", f"{source}.cache"]
    shutil.rmtree(f"{source}.cache", ignore_errors=True)
    code = build_main([*words, str(source), str(site)])
    if code:
        return code
    make_accessible(site)
    wrong, elsewhere = check_site(site)
    print("\n".join(wrong or [f"{len(list(site.rglob('*.html')))} pages in {site}"]))
    print(f"Links to elsewhere, none of which was asked: {', '.join(elsewhere) or 'none'}")
    return int(bool(wrong))


def main() -> int:
    """Make the site; the exit code."""
    try:
        pages = [*staged(), *made_pages()]
    except BrokenLinkError as error:
        raise SystemExit(str(error)) from None
    return build(pages, BUILD / "site-source", BUILD / "site")


if __name__ == "__main__":
    sys.exit(main())
