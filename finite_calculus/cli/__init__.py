"""The command line: `finite-calculus verify` and what else the package does from a shell.

One file per command; importing it registers the command. Heavy imports wait inside the commands, so
that `--help` answers at once.
"""

from finite_calculus.cli import (
    audit,
    cache,
    cache_checks,
    captures,
    explore,
    native,
    repair,
    report,
    search,
    steering,
    studies,
    verify,
)
from finite_calculus.cli.app import app

__all__ = [
    "app",
    "audit",
    "cache",
    "cache_checks",
    "captures",
    "explore",
    "main",
    "native",
    "repair",
    "report",
    "search",
    "steering",
    "studies",
    "verify",
]


def main() -> None:
    """Entry point of the console command."""
    app()
