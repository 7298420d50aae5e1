"""The server answers its own page and nobody else, and no part of a request becomes a file name."""

import http.client
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from finite_calculus.explore import Explorer
from finite_calculus.explore.session import ACTIONS


def ask(
    explorer: Explorer,
    method: str,
    name: str,
    *,
    body: Any = None,
    path: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, Any, Mapping[str, str]]:
    """Status, body and headers of one request."""
    connection = http.client.HTTPConnection("127.0.0.1", explorer.port, timeout=20)
    where = urlsplit(explorer.address).path + name if path is None else path
    sent = {"Content-Type": "application/json"} if method == "POST" else {}
    text = body if isinstance(body, str) or body is None else json.dumps(body)
    connection.request(method, where, body=text, headers={**sent, **(headers or {})})
    answer = connection.getresponse()
    content = answer.read().decode()
    connection.close()
    kind = answer.headers["Content-Type"]
    return answer.status, json.loads(content) if "json" in kind else content, answer.headers


def test_the_page_comes_with_its_policy_and_shares_nothing(explorer: Explorer) -> None:
    status, page, headers = ask(explorer, "GET", "")
    assert status == 200
    assert "<title>finite_calculus explorer</title>" in page
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "connect-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert headers["Referrer-Policy"] == "no-referrer"
    assert headers["Cache-Control"] == "no-store"
    assert not [name for name in headers if name.lower().startswith("access-control")]


@pytest.mark.parametrize("method", ["GET", "POST"])
@pytest.mark.parametrize(
    "change",
    [
        {"path": "/"},
        {"path": "/state"},
        {"path": "/" + "A" * 43 + "/state"},
        {"path": "/%C3%A4/state"},
        {"headers": {"Host": "example.org"}},
        {"headers": {"Host": "127.0.0.1"}},
        {"headers": {"Origin": "http://example.org"}},
        {"headers": {"Origin": "null"}},
    ],
    ids=str,
)
def test_a_request_from_elsewhere_is_refused(explorer: Explorer, method: str, change: dict) -> None:
    body = {} if method == "POST" else None
    name = "state" if method == "POST" else ""
    assert ask(explorer, method, name, body=body, **change)[:2] == (403, "refused\n")


def test_every_explorer_has_a_secret_of_its_own(explorer: Explorer) -> None:
    with Explorer(explorer.session) as other:
        path = urlsplit(explorer.address).path
        assert ask(other, "GET", "", path=path)[0] == 403
        assert ask(other, "GET", "")[0] == 200
    assert len(path) >= 43


@pytest.mark.parametrize("name", ["etc/passwd", "../session.py", "%2e%2e/", "explore.js", "state"])
def test_no_name_but_the_page_itself_can_be_opened(explorer: Explorer, name: str) -> None:
    assert ask(explorer, "GET", name)[:2] == (404, "there is no such page\n")


@pytest.mark.parametrize(
    ("name", "body", "message"),
    [
        ("open", {}, "must be one of state, ask, donor"),
        ("__init__", {}, "must be one of state"),
        ("state", "not JSON", "The request must be JSON"),
        ("state", [], "state takes no field; got list"),
        ("state", {"more": 1}, "state takes no field; got more"),
        ("ask", {"prompt": "A"}, "ask takes prompt, answer, versus, chat; got prompt"),
        ("colours", {"kind": "delete", "head": True}, "`head` must be a int; got True"),
        ("pick", {"edits": ["a", 3]}, "`edits` must be a list of texts"),
        ("evict", {"budget": "0.1", "protect": ""}, "`budget` must be a float"),
        ("pick", {"edits": ["odds:0:1:2"]}, "must be captured first"),
    ],
)
def test_an_action_is_told_what_it_takes(explorer: Explorer, name: str, body, message: str) -> None:
    status, answer, _ = ask(explorer, "POST", name, body=body)
    assert status == 400
    assert message in answer["error"]


def test_other_contents_and_endless_ones_are_refused(explorer: Explorer) -> None:
    plain = {"Content-Type": "text/plain"}
    assert ask(explorer, "POST", "state", body="{}", headers=plain)[0] == 403
    assert ask(explorer, "POST", "state", headers={"Content-Length": str(1 << 40)})[0] == 403
    assert ask(explorer, "POST", "state", headers={"Content-Length": "-1"})[0] == 403


def test_what_nobody_expected_is_told_and_printed(explorer: Explorer, monkeypatch, capsys) -> None:
    def broken(session: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setitem(ACTIONS, "state", broken)
    status, answer, _ = ask(explorer, "POST", "state", body={})
    assert (status, answer["error"]) == (500, "RuntimeError: a bug (the terminal has the rest)")
    assert "in broken" in capsys.readouterr().err
