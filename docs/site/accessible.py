"""What Sphinx writes and a screen reader cannot follow, put right in the pages that it has made."""

import re
from pathlib import Path

# Captions of the contents are headings without a level; parameters on lines of their own are the
# descriptions of a list that has no terms.
_CAPTION = 'class="caption" role="heading">'
_PARAMETERS = re.compile(r'(<span class="sig-paren">\(</span>\s*)<dl>(.*?)</dl>', re.DOTALL)


def make_accessible(site: Path) -> None:
    """Every page of a site, in its place."""
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        text = text.replace(_CAPTION, _CAPTION.replace(">", ' aria-level="2">'))
        page.write_text(_PARAMETERS.sub(_as_lines, text), encoding="utf-8")


def _as_lines(match: re.Match[str]) -> str:
    lines = match[2].replace("<dd>", "<div>").replace("</dd>", "</div>")
    return f'{match[1]}<div class="parameters">{lines}</div>'
