"""What the command line teaches: commands in groups, a text to start with, the next command after an error.

Every command's help ends in an example; after a usage error that example is what is shown.
"""

import errno
import inspect
import re
import sys
from typing import Any

from typer.core import TyperGroup

PROOFS = "Proofs and bounds"
MODELS = "A model and its edits"
CACHE = "Decisions about a cache"
STUDIES = "Studies"
PAGES = "Pages and figures"
_ORDER = (MODELS, CACHE, STUDIES, PAGES, PROOFS)

# One meaning each, for all commands. 1 is also a machine that failed: no space, no memory, a unit's error.
DONE, FAILED, REFUSED, SHUT, INTERRUPTED = 0, 1, 2, 3, 130
EXIT_CODES = (
    "Exit codes: 0 done, 1 a check failed, a record is unsound or the machine gave out, 2 wrong words or "
    "files, 3 the gate is shut, 130 interrupted."
)
START = f"""\
The exact change of an attention head's output under finite edits of keys, values and positions: proved,
predicted for a model, and executed.

Where to begin; all of it runs offline, on the model that comes with the package:

  finite-calculus preflight                 does this machine compute what the formulas say?
  finite-calculus score --answer A --versus B --execute 3 \\
      --prompt "Entity 01: A Entity 02: B Question: What is the label of Entity 02? Answer:"
                                            which edits of the prompt change the answer, and by how much?
  finite-calculus explore                   the same on a page: colours, picked edits, what was executed
  finite-calculus run joint-kv --out joint  a study, with records that resume and can be replayed
  finite-calculus report joint              its tables and figures as one page
  finite-calculus verify                    prove every formula and hold the code to it

  finite-calculus models                    which other models there are
  finite-calculus --help                    every command, in groups; COMMAND --help has an example
  finite-calculus --install-completion      complete commands and options with the Tab key

{EXIT_CODES}"""
# What bad input and a failing machine raise. Any other error is a defect of ours and shows its traceback.
_TOLD = (ValueError, OverflowError, OSError, MemoryError, RecursionError)
_EXAMPLE = re.compile(r"Example: `([^`]+)`")


class Guide(TyperGroup):
    """The root command: lists its commands group by group and ends a usage error with an example."""

    _failed: Any = None

    def list_commands(self, ctx: Any) -> list[str]:
        """Names in the order of their groups; a study is run before anything is asked of it."""
        panels = {name: command.rich_help_panel for name, command in self.commands.items()}  # type: ignore[attr-defined]
        order = [*_ORDER, *panels.values()]
        return sorted(panels, key=lambda name: (order.index(panels[name]), name != "run"))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Without a word: where to begin."""
        if not args and not ctx.resilient_parsing:
            print(START)
            ctx.exit()
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Remember whose words were wrong, so that `main` can show how they go."""
        try:
            return super().invoke(ctx)
        except _TOLD as error:
            print(f"finite-calculus: {words_of(error)}", file=sys.stderr)
            ctx.exit(code_of(error))
        except Exception as error:
            context = getattr(error, "ctx", None)
            asked = self.commands.get(ctx.invoked_subcommand or "")
            self._failed = asked if context is None else context.command
            if isinstance(message := getattr(error, "message", None), str):
                error.message = _shortened(message)  # type: ignore[attr-defined]
            raise

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run; after a usage error print the example of the command."""
        self._failed = None
        try:
            return super().main(*args, **extra)
        except SystemExit as stop:
            words = example(self._failed) if stop.code == 2 else None
            if words:
                print(f"For example:\n  {words}", file=sys.stderr)
            raise


def code_of(error: BaseException) -> int:
    """Whether the machine gave out, or the words were wrong."""
    named = isinstance(error, OSError) and error.errno in (errno.ENAMETOOLONG, errno.ENOENT)
    return FAILED if isinstance(error, OSError | MemoryError) and not named else REFUSED


def words_of(error: BaseException) -> str:
    """What went wrong, in a line: the words of our own errors are made to be read."""
    if isinstance(error, OverflowError):
        return f"A number is larger than anything that can be computed with here: {error}."
    if isinstance(error, MemoryError):
        return "There is not enough memory for this; ask for less at a time."
    if isinstance(error, OSError) and error.strerror:
        where = "" if error.filename is None else f" ({_shortened(str(error.filename), 200)})"
        return f"{error.strerror}{where}."
    return _shortened(str(error))


def _shortened(text: str, most: int = 2000) -> str:
    """The beginning and the end of a text that is too long to be read."""
    return text if len(text) <= most else f"{text[: most // 2]} … {text[-most // 2 :]}"


def example(command: Any) -> str | None:
    """The example of a command's help on one line."""
    found = _EXAMPLE.search(inspect.cleandoc(command.help or "")) if command is not None else None
    return " ".join(found[1].split()) if found else None
