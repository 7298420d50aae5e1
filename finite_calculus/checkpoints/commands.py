"""What `finite-calculus models` prints."""

import json as encode
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table

from finite_calculus.checkpoints.cache import VARIABLE, cache_directory
from finite_calculus.checkpoints.status import listing


def models_command(*, json: bool = False, cache: Path | None = None) -> None:
    """List the known checkpoints, as a table or as JSON with every pin in full."""
    rows = listing(cache=cache)
    if json:
        print(encode.dumps({"schema": 1, "models": [row.as_dict() for row in rows]}, indent=1))
        return
    table = Table(box=box.SIMPLE)
    for heading in ("name", "here", "layers", "heads/KV", "width"):
        table.add_column(heading, no_wrap=True)
    table.add_column("source", overflow="fold")
    for row in rows:
        heads, here = f"{row.heads}/{row.groups}", "yes" if row.here else "no"
        table.add_row(
            row.name,
            here,
            str(row.layers),
            heads,
            str(row.head_width),
            f"{row.source}, {row.licence}",
        )
    console = Console()
    console.print(table)
    console.print(
        f"Cache: {cache_directory(cache)} (set {VARIABLE} to move it). A model that is not here is fetched, "
        f"checked and converted on first use; --json shows what each is, with its hash or revision.",
        soft_wrap=True,
    )
