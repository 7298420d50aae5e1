"""`finite-calculus explore`: a local page on which a person explores edits of a prompt."""

from typing import Annotated

import typer

from finite_calculus.cli.app import app
from finite_calculus.cli.guide import MODELS
from finite_calculus.cli.options import Device, Dtype, Model
from finite_calculus.cli.question import or_refuse


@app.command(rich_help_panel=MODELS)
def explore(
    model: Model = "embedded",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine; 0 takes a free one.")
    ] = 0,
    browser: Annotated[
        bool, typer.Option("--browser", help="Open the page in the default browser.")
    ] = False,
    device: Device = "cpu",
    dtype: Dtype = "float32",
) -> None:
    """Open a page on this machine: type a prompt, see its tokens coloured, pick edits, execute, export.

    The page is served to this machine alone; its address holds a secret, made anew each time. Stop it with
    Ctrl-C.

    Example: `finite-calculus explore --model smollm2-135m-instruct`
    """
    import webbrowser

    from finite_calculus.checkpoints import load, require_tokenizer
    from finite_calculus.explore import Explorer, Session
    from finite_calculus.models import attach

    print(f"loading {model} ...", flush=True)
    native, loaded = or_refuse(lambda: load(model, dtype=dtype, device=device))
    tokenizer = or_refuse(lambda: require_tokenizer(native, loaded))
    with or_refuse(lambda: attach(native, tokenizer=tokenizer)) as instrument:
        try:
            explorer = Explorer(Session(instrument, model), port=port)
        except OSError as error:
            raise typer.BadParameter(f"cannot serve on port {port}: {error.strerror}.") from None
        print(f"open {explorer.address} in a browser; Ctrl-C stops", flush=True)
        if browser:
            webbrowser.open(explorer.address)
        explorer.serve()
