"""The options that several commands share, each written once so that it reads the same everywhere."""

import re
from pathlib import Path
from typing import Annotated

import typer

from finite_calculus.cli.outputs import writable, writable_folder

_MODEL = (
    "A name that `finite-calculus models` lists, a folder with config.json and safetensors, or a hub "
    "id as owner/name or owner/name@revision."
)

# More than any machine of today works on at once; each is a process of its own.
MOST_PROCESSES = 256
# A number of cases that a year of one machine would not see the end of.
MOST_CASES = 10**10


def _model(name: str) -> str:
    if len(name) > 1024:
        raise typer.BadParameter(f"a name of {len(name)} characters is none of a model.")
    return name


def _device(name: str) -> str:
    if not re.fullmatch(r"(cpu|cuda|mps|xpu)(:[0-9]{1,3})?", name):
        raise typer.BadParameter(f"must be cpu, cuda, cuda:N, mps or xpu; got {name[:80]!r}.")
    return name


Model = Annotated[str, typer.Option(help=_MODEL, callback=_model)]
ModelArgument = Annotated[str, typer.Argument(help=_MODEL, callback=_model)]
Device = Annotated[
    str, typer.Option(help="torch device; only cpu has been tested.", callback=_device)
]
# As `finite_calculus.models.precision` knows them; torch is too slow to import for a word of help.
DTYPES = ("float32", "bfloat16", "float16", "float64")


def _known_dtype(name: str) -> str:
    if name not in DTYPES:
        raise typer.BadParameter(f"must be one of {', '.join(DTYPES)}; got {name!r}.")
    return name


Dtype = Annotated[
    str,
    typer.Option(
        help="What the model computes in; half precision takes half of the memory.",
        metavar="|".join(DTYPES),
        callback=_known_dtype,
    ),
]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress, only the results.")]
JsonFile = Annotated[
    Path | None, typer.Option("--json", help="Write the results to this file.", callback=writable)
]
Layers = Annotated[str, typer.Option(help="Layers as in 18 or 0,3,7-9, or all.")]
Prompt = Annotated[str | None, typer.Option(help="The prompt; its last token reads the others.")]
PromptFile = Annotated[Path | None, typer.Option(help="Read the prompt from this file, UTF-8.")]
Prompts = Annotated[
    Path | None,
    typer.Option(
        help="Every prompt of this file: JSON lines with prompt, and answer, versus, edits or name."
    ),
]
PromptsOut = Annotated[
    Path | None,
    typer.Option(
        "--out",
        help="With --prompts: the folder of the table; the same command goes on where it stopped.",
        callback=writable_folder,
    ),
]
Chat = Annotated[
    bool, typer.Option("--chat", help="Wrap the prompt as a user's message of the model's chat.")
]
Answer = Annotated[str, typer.Option(help="One token, as text or #ID; positive is towards it.")]
Versus = Annotated[str, typer.Option(help="The token it is compared with, as text or #ID.")]
OptionalAnswer = Annotated[
    str | None, typer.Option(help="One token, as text or #ID; the likeliest unless given.")
]
OptionalVersus = Annotated[
    str | None, typer.Option(help="The token it is compared with; the second likeliest.")
]
Curvature = Annotated[
    int,
    typer.Option(min=0, help="Predict to second order, along so many directions; 0 for first."),
]
