"""The page: one HTML file with its script and style inside, live on the server or saved with its data."""

import base64
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import finite_calculus.report

_OWN = Path(__file__).with_name("assets")
# Tables, colours and style are those of the report.
_REPORT = Path(finite_calculus.report.__file__).with_name("assets")
_SCRIPTS = (
    _REPORT / "table.js",
    *(_OWN / f"{name}.js" for name in ("colours", "panels", "map", "ratios", "explore")),
)
_STYLES = (_REPORT / "report.css", _OWN / "explore.css")


def live_page() -> str:
    """The page that asks the server."""
    return _filled(None)


def saved_page(state: Mapping[str, Any]) -> str:
    """The page with the data of a session, which asks nobody."""
    return _filled(state)


def content_policy(page: str, *, connect: str) -> str:
    """What a browser may do with the page: run its own script, show its own style, nothing else."""
    script, style = (_hash(_between(page, tag)) for tag in ("script", "style"))
    return (
        f"default-src 'none'; script-src '{script}'; style-src '{style}'; connect-src {connect}; "
        f"img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def plain(value: Any) -> Any:
    """Data as JSON knows it: what is not a finite number becomes null."""
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, float) and value - value != 0:
        return None
    return value


def as_json(value: Any) -> str:
    """JSON of ASCII alone that is safe between script tags."""
    return json.dumps(plain(value), ensure_ascii=True, allow_nan=False).replace("<", "\\u003c")


def _filled(state: Mapping[str, Any] | None) -> str:
    parts = {
        "STYLE": "\n".join(path.read_text(encoding="utf-8") for path in _STYLES),
        "SCRIPT": "\n".join(path.read_text(encoding="utf-8") for path in _SCRIPTS),
        "DATA": as_json(state),
    }
    page = _OWN.joinpath("explore.html").read_text(encoding="utf-8")
    for name, text in parts.items():
        page = page.replace(f"{{{name}}}", text, 1)
    # A page from disk has no header to carry its policy.
    policy = content_policy(page, connect="'none'").replace("; frame-ancestors 'none'", "")
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    return page.replace("{POLICY}", "" if state is None else meta, 1)


def _between(page: str, tag: str) -> str:
    return page.split(f"<{tag}>", 1)[1].split(f"</{tag}>", 1)[0]


def _hash(text: str) -> str:
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
