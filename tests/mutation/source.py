"""A source file whose syntax tree knows its places in bytes, and edits that move no line."""

import ast
import re

Edit = tuple[int, int, str]  # first byte, byte after the last, what stands there instead


class Source:
    """A file with the places of its syntax tree in bytes."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.tree = ast.parse(data)
        self._starts = [0]
        for line in data.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def span(self, node: ast.AST) -> tuple[int, int]:
        """First byte of a node and the byte after its last."""
        first = self._starts[node.lineno - 1] + node.col_offset
        return first, self._starts[node.end_lineno - 1] + node.end_col_offset

    def text(self, node: ast.AST) -> str:
        """What is written at a node."""
        start, end = self.span(node)
        return self.data[start:end].decode()

    def instead(self, node: ast.AST, text: str) -> Edit:
        """Replace a node, keeping the number of lines."""
        missing = self.text(node).count("\n") - text.count("\n")
        if missing and isinstance(node, ast.expr):
            text = f"({text}" + "\n" * missing + ")"
        elif missing:
            text += "\n" * missing
        return *self.span(node), text

    def between(self, left: ast.AST, right: ast.AST, old: str, new: str) -> Edit:
        """Replace the operator between two operands."""
        start, end = self.span(left)[1], self.span(right)[0]
        pattern = r"\s+".join(map(re.escape, old.split()))
        match = re.search(pattern, self.data[start:end].decode())
        assert match is not None
        offset = start + len(self.data[start:end].decode()[: match.start()].encode())
        return offset, offset + len(match.group().encode()), new
