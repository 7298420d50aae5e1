"""`python docs/make.py` fills the tables of README.md and of these pages from the saved records.

A page holds `<!-- table: NAME -->` … `<!-- end -->`; what stands between is made by `tables.py`. With
`--check` nothing is written, and exit code 1 names the tables that are not what the records say.
"""

import re
import sys

from tables import ROOT, TABLES

PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
MARKED = re.compile(r"(<!-- table: ([\w-]+) -->\n)(.*?)(<!-- end -->)", re.DOTALL)


def fill(text: str) -> tuple[str, list[str]]:
    """A page with its tables made again, and the names of those that changed."""
    changed: list[str] = []

    def replace(match: re.Match[str]) -> str:
        opening, name, body, closing = match.groups()
        if name not in TABLES:
            raise SystemExit(f"No table is called {name!r}; there are {', '.join(TABLES)}.")
        table = "\n".join(TABLES[name]()) + "\n"
        if table != body:
            changed.append(name)
        return opening + table + closing

    return MARKED.sub(replace, text), changed


def main(arguments: list[str]) -> int:
    """Fill or check every page; the exit code."""
    if arguments not in ([], ["--check"]):
        raise SystemExit(f"The only argument is --check; got {' '.join(arguments)}.")
    stale = False
    for page in PAGES:
        text, changed = fill(page.read_text(encoding="utf-8"))
        for name in changed:
            stale = True
            print(f"{page.relative_to(ROOT)}: table {name} is not what its records say")
        if changed and not arguments:
            page.write_text(text, encoding="utf-8")
            print(f"{page.relative_to(ROOT)}: made again")
    if stale and arguments:
        print("Make the pages again with: make docs")
    return int(stale and bool(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
