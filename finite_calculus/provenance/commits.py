"""The git commit of the code at hand, where it comes from a repository and nothing of it was changed."""

import subprocess
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_CODE = ("finite_calculus", "native_checks", "proofs")


def code_commit() -> str | None:
    """The commit, or None: not from a repository, without git, or with changes that are not committed."""
    folders = [name for name in _CODE if (_ROOT / name).is_dir()]
    try:
        # Installed code may lie inside some other repository, which does not hold it.
        _git("ls-files", "--error-unmatch", "finite_calculus/__init__.py")
        changed = _git("status", "--porcelain", "--", *folders)
        return None if changed else _git("rev-parse", "HEAD") or None
    except (OSError, subprocess.CalledProcessError):
        return None


def _git(*words: str) -> str:
    command = ["git", "-C", str(_ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
