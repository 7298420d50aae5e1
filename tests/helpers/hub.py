"""A Hugging Face hub on 127.0.0.1: the few endpoints that huggingface_hub asks, served from memory.

Repositories are made of commits, each a set of files. The server can be told to misbehave: to drop a
connection halfway, to serve other bytes than it advertises, to gate a repository, or to be in trouble.
Like the real hub, it lists the files of a gated repository and refuses each of them, and answers 401
rather than 404 to somebody without a token who asks for a repository that is not there.
"""

import hashlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit

ROOT = Path(__file__).parents[2]


@dataclass
class Repository:
    """Commits by their hash, and which of them each branch is."""

    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def commit(self, files: Mapping[str, bytes], *, branch: str = "main") -> str:
        """Add a commit and move the branch to it."""
        content = b"".join(name.encode() + files[name] for name in sorted(files))
        commit = hashlib.sha1(content).hexdigest()
        self.commits[commit] = dict(files)
        self.branches[branch] = commit
        return commit


@dataclass
class Hub:
    """What is served, how it misbehaves, and what was asked."""

    repositories: dict[str, Repository] = field(default_factory=dict)
    gated: set[str] = field(default_factory=set)
    in_trouble: bool = False
    # Files whose next GET breaks off after half of the bytes.
    broken_once: set[str] = field(default_factory=set)
    # Files that are served with these bytes, under the hash and size of the right ones.
    replaced: dict[str, bytes] = field(default_factory=dict)
    # Method, path and Range of every request.
    requests: list[tuple[str, str, str | None]] = field(default_factory=list)
    endpoint: str = ""

    def publish(self, name: str, folder: Path, *, branch: str = "main") -> str:
        """Commit the files of a folder to a repository."""
        files = {path.name: path.read_bytes() for path in folder.iterdir()}
        return self.repositories.setdefault(name, Repository()).commit(files, branch=branch)


@contextmanager
def serve() -> Iterator[Hub]:
    """A hub that runs until the block ends; its `endpoint` is what HF_ENDPOINT must be."""
    hub = Hub()
    handler = type("Handler", (_Handler,), {"hub": hub})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    hub.endpoint = f"http://127.0.0.1:{server.server_address[1]}"
    thread = Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def environment(endpoint: str, home: Path, **more: str) -> dict[str, str]:
    """The variables of a child process that knows this hub only, with a cache of its own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return kept | {
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_XET": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
        "FINITE_CALCULUS_CACHE": str(home / "converted"),
        "NO_PROXY": "127.0.0.1",
        "PYTHONPATH": str(ROOT),
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "400",
        **more,
    }


def child(program: str, endpoint: str, home: Path, **more: str) -> Any:
    """What a program printed last, as JSON, run by a fresh interpreter that knows this hub only."""
    done = run([sys.executable, "-c", program], environment(endpoint, home, **more))
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.strip().splitlines()[-1])


def command(*arguments: str, endpoint: str, home: Path) -> subprocess.CompletedProcess[str]:
    """`finite-calculus` in a child process that knows this hub only."""
    words = [sys.executable, "-m", "finite_calculus", *arguments]
    return run(words, environment(endpoint, home))


def run(words: list[str], variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, capture_output=True, text=True, check=False, cwd=ROOT, env=variables
    )


class _Handler(BaseHTTPRequestHandler):
    hub: Hub
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: requests are kept in `hub.requests`."""

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = unquote(urlsplit(self.path).path)
        self.hub.requests.append((self.command, path, self.headers.get("Range")))
        listing = re.fullmatch(r"/api/models/([^/]+/[^/]+)/revision/(.+)", path)
        resolved = re.fullmatch(r"/([^/]+/[^/]+)/resolve/([^/]+)/(.+)", path)
        match = listing or resolved
        repository = self.hub.repositories.get(match[1]) if match else None
        if self.hub.in_trouble:
            return self._error(503, "")
        if match is None or repository is None:
            return self._error(401, "RepoNotFound")
        if resolved and match[1] in self.hub.gated:
            return self._error(401, "GatedRepo")
        commit = repository.branches.get(match[2], match[2])
        if commit not in repository.commits:
            return self._error(404, "RevisionNotFound")
        files = repository.commits[commit]
        if listing:
            return self._list(match[1], commit, files)
        if match[3] not in files:
            return self._error(404, "EntryNotFound", commit)
        return self._file(commit, match[3], files[match[3]])

    def _list(self, name: str, commit: str, files: Mapping[str, bytes]) -> None:
        siblings = []
        for file, content in files.items():
            entry: dict[str, Any] = {"rfilename": file, "size": len(content)}
            entry["blobId"] = _git_hash(content)
            if _is_large(file):
                facts = {"sha256": _sha256(content), "size": len(content), "pointerSize": 134}
                entry["lfs"] = facts
            siblings.append(entry)
        body = {"id": name, "modelId": name, "sha": commit, "siblings": siblings, "tags": []}
        self._send(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _file(self, commit: str, file: str, content: bytes) -> None:
        headers = {"X-Repo-Commit": commit, "Accept-Ranges": "bytes"}
        headers["ETag"] = f'"{_git_hash(content)}"'
        if _is_large(file):
            headers["X-Linked-Etag"] = f'"{_sha256(content)}"'
            headers["X-Linked-Size"] = str(len(content))
        content, status = self.hub.replaced.get(file, content), 200
        start = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range") or "")
        if start:
            status, whole = 206, len(content)
            headers["Content-Range"] = f"bytes {start[1]}-{whole - 1}/{whole}"
            content = content[int(start[1]) :]
        broken = self.command == "GET" and file in self.hub.broken_once
        if broken:
            self.hub.broken_once.remove(file)
        self._send(status, content, headers, half=broken)

    def _error(self, status: int, code: str, commit: str = "") -> None:
        headers = {"X-Error-Code": code, "X-Error-Message": code}
        self._send(status, b"", headers | ({"X-Repo-Commit": commit} if commit else {}))

    def _send(
        self, status: int, body: bytes, headers: Mapping[str, str], *, half: bool = False
    ) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        self.wfile.write(body[: len(body) // 2] if half else body)
        self.close_connection = self.close_connection or half


def _is_large(file: str) -> bool:
    return file.endswith(".safetensors")


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _git_hash(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()
