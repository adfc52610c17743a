"""Definitions of the product: its modules, classes and functions, read once for all tests of their names."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.suite.steady import ROOT

PRODUCT = ROOT / "include" / "databus"


class Definition(NamedTuple):
    """Definition, and what stands first in its docstring.

    Attributes:
        file: below the package.
        line: of the file, from one; one for a module.
        name: of a class or function; "" for a module.
        is_class: whether it is a class.
        first: first line of its docstring, "" where it has none.
    """

    file: str
    line: int
    name: str
    is_class: bool
    first: str


@cache
def definitions() -> tuple[Definition, ...]:
    """Return all of them, private and nested ones too, in order of files."""
    return tuple(_all())


def _all() -> Iterator[Definition]:
    for path in sorted(PRODUCT.rglob("*.py")):
        file, found = str(path.relative_to(PRODUCT)), list[ast.AST]([ast.parse(path.read_text(encoding="utf-8"))])
        while found:
            node = found.pop()
            found.extend(child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr))
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                first = (ast.get_docstring(node) or "").partition("\n")[0]
                name, line = getattr(node, "name", ""), getattr(node, "lineno", 1)
                yield Definition(file, line, name, isinstance(node, ast.ClassDef), first)
