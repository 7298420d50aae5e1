"""The wheel carries `proofs` and `native_checks` inside finite_calculus, under which name they are imported.

Names that general must not land at the top of a stranger's site-packages. pyproject.toml moves the two
folders; this hook of hatchling rewrites their names in copies of the sources. Editable installs are left
as they are.
"""

import ast
import re
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MOVED = ("native_checks", "proofs")
BARE = re.compile(rf"^(\s*)import ({'|'.join(MOVED)})$", re.MULTILINE)
FROM = re.compile(rf"^(\s*)from ({'|'.join(MOVED)}) import\b", re.MULTILINE)
# In imports, and in strings and docstrings that name a module.
DOTTED = re.compile(rf"(?<![\w./])({'|'.join(MOVED)})\.(?=[\w{{])")


def rewrite(text: str, name: str) -> str:
    """A source with the moved packages under their new name; raises where that could go wrong."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Attribute) and getattr(node.value, "id", None) in MOVED:
            raise ValueError(
                f"{name}:{node.lineno} must not write `{ast.unparse(node)}`, which the wheel would rename; "
                f"import `{node.attr}` from its module."
            )
    text = BARE.sub(r"\1from finite_calculus import \2", text)
    text = FROM.sub(r"\1from finite_calculus.\2 import", text)
    text = DOTTED.sub(r"finite_calculus.\1.", text)
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom | ast.Import):
            source = getattr(node, "module", None)
            modules = [source] if source else [alias.name for alias in node.names]
            if any(module.split(".")[0] in MOVED for module in modules):
                raise ValueError(
                    f"{name}:{node.lineno} imports in a form that the wheel cannot rename; write "
                    f"`from <module> import <name>`."
                )
    return text


class WheelHook(BuildHookInterface):
    """Puts a rewritten copy in the place of every source that names a moved package."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Write the copies and let the builder take them instead of the originals."""
        if version == "editable":
            return
        self.copies = TemporaryDirectory(prefix="finite-calculus-wheel-")
        for file in self.build_config.builder.recurse_selected_project_files():
            if not file.path.endswith(".py"):
                continue
            text = Path(file.path).read_text(encoding="utf-8")
            renamed = rewrite(text, file.relative_path)
            if renamed != text:
                copy = Path(self.copies.name, file.distribution_path)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_text(renamed, encoding="utf-8")
                build_data["force_include"][str(copy)] = file.distribution_path

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove the copies."""
        if version != "editable":
            self.copies.cleanup()
