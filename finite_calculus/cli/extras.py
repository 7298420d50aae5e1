"""The optional parts of the installation, and what a command says when one of them is missing."""

from importlib.util import find_spec

import typer

# Per extra, the modules that its commands import.
EXTRAS = {
    "verify": ("sympy", "mpmath", "flint"),
    "models": ("transformers", "safetensors"),
    "studies": ("pyarrow", "pydantic", "transformers"),
    "gguf": ("gguf",),
}


def require_extra(name: str) -> None:
    """End the command, naming what to install, unless every module of an extra is there."""
    missing = [module for module in EXTRAS[name] if find_spec(module) is None]
    if missing:
        raise typer.BadParameter(
            f"This command needs {', '.join(missing)}, not installed here: "
            f"install finite-calculus[{name}]."
        )
