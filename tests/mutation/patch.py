"""Putting a mutant into this process: a forked child, which is then thrown away.

A change inside a function is made by exchanging the code of the living function objects, wherever they
are bound. A change that matters when the module is imported needs a new import of the project.
"""

import gc
import importlib.machinery
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import CodeType, FunctionType

from tests.mutation.mutants import Mutant


def living_functions(core: Path) -> dict[str, list[FunctionType]]:
    """All function objects of a package, by file: decorators and closures keep some out of sight."""
    found: dict[str, list[FunctionType]] = defaultdict(list)
    for function in [item for item in gc.get_objects() if type(item) is FunctionType]:
        path = Path(function.__code__.co_filename)
        if path.parent == core:
            found[path.name].append(function)
    return found


def exchange(mutant: Mutant, path: Path, source: bytes, functions: Sequence[FunctionType]) -> None:
    """Give every function of the file the code it has in the mutated source."""
    before, after = (_codes(text, path) for text in (source, mutant.apply(source)))
    changed = {key for key, code in after.items() if code != before.get(key)}
    touched = [function for function in functions if _key(function.__code__) in changed]
    if not touched:
        raise ValueError(f"`mutant` must change a function that is alive; got {mutant}.")
    for function in touched:
        function.__code__ = after[_key(function.__code__)]


def serve(path: Path, mutated: bytes, root: Path) -> None:
    """Forget the project's modules, and let the next import read the mutated source of one."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        outside = file is None or root not in Path(file).parents or "site-packages" in file
        if not outside and not name.startswith(("tests.mutation", "__main__")):
            del sys.modules[name]
    sys.dont_write_bytecode = True
    read = importlib.machinery.SourceFileLoader.get_data

    def get_data(self: importlib.machinery.SourceFileLoader, wanted: str) -> bytes:
        if Path(wanted) == path:
            return mutated
        if Path(wanted).suffix == ".pyc" and Path(wanted).name.startswith(f"{path.stem}."):
            raise FileNotFoundError(wanted)  # compiled from the original
        return read(self, wanted)

    importlib.machinery.SourceFileLoader.get_data = get_data


def _codes(source: bytes, path: Path) -> dict[tuple[str, int], CodeType]:
    """The code of every function in a source, by name and line; two on one line would be confused."""
    found = list(_inside(compile(source, str(path), "exec", dont_inherit=True)))
    codes = {_key(code): code for code in found}
    if len(codes) != len(found):
        raise ValueError(f"`{path}` must not have two lambdas on one line: split the line.")
    return codes


def _inside(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inside(constant)


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno
