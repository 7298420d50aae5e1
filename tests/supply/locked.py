"""The packages of requirements.lock: the sha256 of their files in the package index, and their licences.

torch has no hash: its pin is met by builds of several indices (with and without CUDA), each with files of its
own, so that a list of hashes would choose one of them for everybody.
"""

import re
import urllib.request
from importlib.metadata import PackageNotFoundError, metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LOCK, HASHES = ROOT / "requirements.lock", ROOT / "requirements.hashes"
LICENCES = ROOT / "results" / "licences.json"
WITHOUT = ("torch",)
_FILE = re.compile(r'<a href="[^"]*/([^/"#]+)#sha256=([0-9a-f]{64})"')


def pins() -> dict[str, str]:
    """Versions by name, as the lock has them."""
    return dict(line.split("==", 1) for line in LOCK.read_text().split())


def normal(name: str) -> str:
    """A name as the index knows it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def hash_lines(index: str) -> str:
    """Every pin with the hashes of its files in a package index, as pip's hash-checking mode reads them."""
    blocks = []
    for name, version in pins().items():
        if name in WITHOUT:
            continue
        with urllib.request.urlopen(f"{index.rstrip('/')}/{normal(name)}/", timeout=60) as answer:
            hashes = _hashes(answer.read().decode(), name, version)
        if not hashes:
            raise SystemExit(f"The index has no file of {name} {version}.")
        blocks.append(
            " \\\n    ".join([f"{name}=={version}", *(f"--hash=sha256:{h}" for h in hashes)])
        )
    return "\n".join(blocks) + "\n"


def _hashes(page: str, name: str, version: str) -> list[str]:
    """The hashes of one version's wheels and source archive on a page of the index."""
    start = re.compile(rf"{re.escape(normal(name))}-{re.escape(version)}(-|\.tar\.gz$|\.zip$)")
    return sorted(
        sha for file, sha in _FILE.findall(page) if start.match(_normal_file(file, version))
    )


def _normal_file(file: str, version: str) -> str:
    """A file's name with that of its package as the index knows it."""
    name, found, rest = file.partition(f"-{version}")
    return f"{normal(name)}{found}{rest}"


def licences() -> dict[str, str]:
    """The licence of every installed package of the lock, by its own metadata."""
    return {name: _licence(name) for name in pins()}


def _licence(name: str) -> str:
    try:
        words: Any = metadata(name)
    except PackageNotFoundError:
        return "not installed"
    expression = words.get("License-Expression")
    listed = [
        line.rpartition("::")[2].strip()
        for line in words.get_all("Classifier") or ()
        if line.startswith("License ::") and not line.endswith("OSI Approved")
    ]
    text = (words.get("License") or "").strip().partition("\n")[0]
    return expression or "; ".join(listed) or text or "not said"
