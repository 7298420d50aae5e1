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

from beartype._cache.cacheclear import clear_caches

from tests.mutation.mutants import Mutant


def living_functions(core: Path) -> dict[str, list[FunctionType]]:
    """All function objects of a package, by file: decorators and closures keep some out of sight."""
    by_file: dict[str, list[FunctionType]] = defaultdict(list)
    for function in [item for item in gc.get_objects() if type(item) is FunctionType]:
        path = Path(function.__code__.co_filename)
        if path.parent == core:
            by_file[path.name].append(function)
    return by_file


def exchange(mutant: Mutant, path: Path, source: bytes, functions: Sequence[FunctionType]) -> bool:
    """Give every function of the file the code it has in the mutated source.

    False if this cannot be done, because a closure would use other variables than it holds.
    """
    before, after = (_codes(text, path) for text in (source, mutant.apply(source)))
    keys = {key for key, code in after.items() if code != before.get(key)}
    touched = [function for function in functions if _key(function.__code__) in keys]
    if not touched:
        raise ValueError(f"`mutant` must change a function that is alive; got {mutant}.")
    codes = [after[_key(function.__code__)] for function in touched]
    if any(f.__code__.co_freevars != c.co_freevars for f, c in zip(touched, codes, strict=True)):
        return False
    for function, code in zip(touched, codes, strict=True):
        function.__code__ = code
    return True


def serve(path: Path, mutated: bytes, root: Path) -> None:
    """Forget the project's modules, and let the next import read the mutated source of one."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__file__", None)
        outside = file is None or root not in Path(file).parents or "site-packages" in file
        if not outside and not name.startswith(("tests.mutation", "__main__")):
            del sys.modules[name]
    clear_caches()  # else a hint like list[Total] would go on asking for the class of the first import
    sys.dont_write_bytecode = True
    read = importlib.machinery.SourceFileLoader.get_data

    def get_data(self: importlib.machinery.SourceFileLoader, name: str) -> bytes:
        if Path(name) == path:
            return mutated
        if Path(name).suffix == ".pyc" and Path(name).name.startswith(f"{path.stem}."):
            raise FileNotFoundError(name)  # compiled from the original
        return read(self, name)

    importlib.machinery.SourceFileLoader.get_data = get_data


Key = tuple[str, int, int]


def _codes(source: bytes, path: Path) -> dict[Key, CodeType]:
    """The code of every function in a source, by name, line and number of arguments."""
    functions = list(_inside(compile(source, str(path), "exec", dont_inherit=True)))
    codes = {_key(code): code for code in functions}
    if len(codes) != len(functions):
        raise ValueError(f"`{path}` must not have two like lambdas on one line: split it.")
    return codes


def _inside(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from _inside(constant)


def _key(code: CodeType) -> Key:
    return code.co_qualname, code.co_firstlineno, code.co_argcount
