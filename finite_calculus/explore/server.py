"""The server of the page: loopback alone, a secret in the address, one thread for the model.

A request is answered if its Host is this server's own, its path begins with the secret, and what follows is
one of the names below: no part of a request becomes a file name. Nothing is shared with other origins. What
an action refuses comes back as its message; what nobody expected is printed here and told as such.
"""

import hmac
import inspect
import json
import secrets
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any, get_origin

from finite_calculus.explore.page import as_json, content_policy, live_page
from finite_calculus.explore.session import ACTIONS, Session
from finite_calculus.models import UnsupportedModelError

_LOOPBACK = "127.0.0.1"
# A prompt of a million letters is beyond every context.
_MOST_BYTES = 1 << 22


class Explorer:
    """The page of a session on a port of the loopback address; a block stops it at its end."""

    def __init__(self, session: Session, *, port: int = 0) -> None:
        self.session = session
        self._worker = ThreadPoolExecutor(max_workers=1, thread_name_prefix="model")
        self._secret = secrets.token_urlsafe(32)
        self._server = ThreadingHTTPServer((_LOOPBACK, port), self._handler())
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]

    @property
    def address(self) -> str:
        """What to open in a browser; whoever knows it may use the model."""
        return f"http://{_LOOPBACK}:{self.port}/{self._secret}/"

    def __enter__(self) -> "Explorer":
        """Serve in the background until the end of the block."""
        Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._close()

    def serve(self) -> None:
        """Serve until interrupted."""
        try:
            self._server.serve_forever()
        finally:
            self._close()

    def run(self, name: str, data: object) -> tuple[HTTPStatus, Any]:
        """One action on the model's thread: its answer, or why there is none."""
        try:
            return HTTPStatus.OK, self._worker.submit(_checked(name, data), self.session).result()
        except (ValueError, TypeError, UnsupportedModelError) as error:
            return HTTPStatus.BAD_REQUEST, {"error": str(error)}
        except Exception as error:
            traceback.print_exc()
            words = f"{type(error).__name__}: {error} (the terminal has the rest)"
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"error": words}

    def allowed(self, host: str | None, path: str, origin: str | None) -> str | None:
        """The name after the secret, or None for a request that is not from this page."""
        hosts = (f"{_LOOPBACK}:{self.port}", f"localhost:{self.port}")
        if host not in hosts or (origin is not None and origin != f"http://{host}"):
            return None
        secret, slash, name = path.removeprefix("/").partition("/")
        same = hmac.compare_digest(secret.encode(), self._secret.encode())
        return name if same and slash else None

    def _close(self) -> None:
        self._server.server_close()
        self._worker.shutdown()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        explorer, page = self, live_page()
        policy = content_policy(page, connect="'self'")

        class Handler(BaseHTTPRequestHandler):
            server_version, sys_version = "finite_calculus", ""
            protocol_version = "HTTP/1.1"
            timeout = 60

            def do_GET(self) -> None:
                name = explorer.allowed(self.headers["Host"], self.path, self.headers["Origin"])
                if name is None:
                    self._answer(HTTPStatus.FORBIDDEN, "text/plain", "refused\n")
                elif name:
                    self._answer(HTTPStatus.NOT_FOUND, "text/plain", "there is no such page\n")
                else:
                    self._answer(HTTPStatus.OK, "text/html", page)

            def do_POST(self) -> None:
                name = explorer.allowed(self.headers["Host"], self.path, self.headers["Origin"])
                length = self.headers["Content-Length"] or ""
                json_sent = self.headers["Content-Type"] == "application/json"
                fits = length.isdigit() and int(length) <= _MOST_BYTES
                if name is None or not json_sent or not fits:
                    self.close_connection = True  # the body is left unread
                    self._answer(HTTPStatus.FORBIDDEN, "text/plain", "refused\n")
                    return
                body = self.rfile.read(int(length))
                try:
                    status, answer = explorer.run(name, json.loads(body))
                except ValueError:
                    status, answer = HTTPStatus.BAD_REQUEST, {"error": "The request must be JSON."}
                self._answer(status, "application/json", as_json(answer))

            def _answer(self, status: HTTPStatus, kind: str, text: str) -> None:
                blob = text.encode()
                self.send_response(status)
                for header, value in (
                    ("Content-Type", f"{kind}; charset=utf-8"),
                    ("Content-Length", str(len(blob))),
                    ("Content-Security-Policy", policy),
                    ("Cache-Control", "no-store"),
                    ("Cross-Origin-Opener-Policy", "same-origin"),
                    ("Cross-Origin-Resource-Policy", "same-origin"),
                    ("Referrer-Policy", "no-referrer"),
                    ("X-Content-Type-Options", "nosniff"),
                ):
                    self.send_header(header, value)
                self.end_headers()
                self.wfile.write(blob)

            def log_message(self, format: str, *args: Any) -> None:
                """Nothing: the path holds the secret."""

        return Handler


def _checked(name: str, data: object) -> Callable[[Session], Any]:
    """The action of a request, once its fields are there and of their types."""
    if name not in ACTIONS:
        raise ValueError(f"The action must be one of {', '.join(ACTIONS)}; got {name!r}.")
    action = ACTIONS[name]
    fields = dict(list(inspect.signature(action).parameters.items())[1:])
    if not isinstance(data, dict) or data.keys() != fields.keys():
        got = ", ".join(data) if isinstance(data, dict) else type(data).__name__
        raise ValueError(f"{name} takes {', '.join(fields) or 'no field'}; got {got}.")
    for field, parameter in fields.items():
        _check(field, data[field], parameter.annotation)
    return lambda session: action(session, **data)


def _check(field: str, value: object, kind: Any) -> None:
    if get_origin(kind) is list:
        right = isinstance(value, list) and all(isinstance(each, str) for each in value)
    elif kind is float:
        right = isinstance(value, float | int) and not isinstance(value, bool)
    else:
        right = type(value) is kind
    if not right:
        word = "a list of texts" if get_origin(kind) is list else f"a {kind.__name__}"
        raise TypeError(f"`{field}` must be {word}; got {value!r}.")
