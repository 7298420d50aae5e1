"""`finite-calculus report` and `figure`: pages and drawings from saved records, without a model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from finite_calculus.cli.app import app
from finite_calculus.cli.guide import PAGES

if TYPE_CHECKING:
    from finite_calculus.harness.tables import Table

Records = Annotated[
    list[Path],
    typer.Argument(
        help="Runs, archives, ledgers, preflights, audits, or folders of these.", show_default=False
    ),
]


@app.command(rich_help_panel=PAGES)
def report(
    paths: Records,
    out: Annotated[Path, typer.Option(help="The page to write; it opens offline.")] = Path(
        "report.html"
    ),
) -> None:
    """Write one page with everything that the records hold: proofs, preflights, tables, figures.

    The page is a single file without any request to a network. Each number stands under the run that it
    comes from, with the fingerprint and the command that makes it again.

    Example: `finite-calculus report results --out report.html`
    """
    from finite_calculus.harness.errors import StoreError
    from finite_calculus.report import read_sources, write_report

    try:
        _require_writable(out)
        sources = read_sources(paths)
        size = write_report(sources, out, beside=printed_tables)
    except (ValueError, OSError, StoreError) as error:
        raise typer.BadParameter(str(error)) from None
    print(f"{len(sources)} records in {out}, {size / 1e6:.1f} MB; open it in a browser")


@app.command(rich_help_panel=PAGES)
def figure(
    name: Annotated[str, typer.Argument(help="Name of the figure; `list` names all.")],
    paths: Annotated[list[Path] | None, typer.Argument(help="Runs or archives.")] = None,
    out: Annotated[Path | None, typer.Option(help="SVG to write; default: NAME.svg.")] = None,
) -> None:
    """Draw one figure from saved records as SVG, in the colours for print.

    Example: `finite-calculus figure errors results/joint-kv/smollm2-135m-instruct --out errors.svg`
    """
    from finite_calculus.report import draw_named, drawings, read_sources

    try:
        sources = read_sources(paths or [])
        if name == "list":
            print("\n".join(drawings(sources)))
            return
        target = out or Path(f"{name}.svg")
        _require_writable(target)
        target.write_text(draw_named(name, sources), encoding="utf-8")
    except (ValueError, OSError) as error:
        raise typer.BadParameter(str(error)) from None
    print(target)


def printed_tables(study: str) -> "dict[str, Table]":
    """The paper's tables for a study, by the table that each stands beside."""
    from finite_calculus.harness.tables import Table
    from proofs.printed.shown import shown_beside

    return {
        name: Table(
            name,
            f"In the paper: {each.label}, {each.subject}",
            each.columns,
            each.rows,
            "As printed there; these are no figures of this run, and its models are others.",
        )
        for name, each in shown_beside(study).items()
    }


def _require_writable(out: Path) -> None:
    """Refuse a place that cannot be written before any work is done."""
    if out.is_dir() or not out.resolve().parent.is_dir():
        raise ValueError(f"`--out` must be a file in a folder that exists; got {out}.")
