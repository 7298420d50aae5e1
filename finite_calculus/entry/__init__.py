"""Entry of the command `finite-calculus`: names the extra that a missing package belongs to.

The core is installed without what the commands need, so this imports nothing of theirs before it runs.
"""

import sys

# Which extra of pyproject.toml brings a package.
EXTRAS = {
    **dict.fromkeys(("typer", "rich", "tqdm"), "cli"),
    **dict.fromkeys(("sympy", "mpmath", "flint"), "verify"),
    **dict.fromkeys(("transformers", "safetensors"), "models"),
    **dict.fromkeys(("pydantic", "pyarrow", "scipy"), "studies"),
    **dict.fromkeys(("jinja2", "matplotlib"), "report"),
    "gguf": "gguf",
    "ray": "ray",
    "fsspec": "objects",
    "s3fs": "objects",
}


def main() -> None:
    """Run the command line; exit with one line where an extra is not installed."""
    try:
        from finite_calculus.cli import app

        app()
    except KeyboardInterrupt:
        sys.exit(130)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        sys.exit(
            f"finite-calculus: this command needs {package}, which is not installed. "
            f"Install it with: pip install 'finite-calculus[{EXTRAS[package]}]'"
        )
