"""Columns whose names are methods in SQLAlchemy 2.0, where 2.1 gives the column: code takes them by brackets."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import databus
from databus.records import tables

PACKAGE = Path(databus.__file__).parent
METHODS = {
    "add", "as_readonly", "clear", "compare", "contains_column", "corresponding_column", "extend", "get", "items",
    "keys", "remove", "update", "values",
}  # fmt: skip
"""Public methods of `sqlalchemy.sql.base.ReadOnlyColumnCollection` in 2.0.48: `c.clear == 0` is False there."""


_MAY_BE = re.compile(rf"\b(?:c|columns)[\s)]*\.\s*(?:{'|'.join(sorted(METHODS))})\b")
"""Stands in each text that takes one: the others, nearly all, need not be parsed."""


def compared(text: str) -> Iterator[str]:
    """Yield what a module takes of a table's columns as an attribute that may be a method, calls left out."""
    if not _MAY_BE.search(text):
        return
    tree = ast.parse(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in METHODS and id(node) not in called:
            owner = node.value
            if getattr(owner, "id", getattr(owner, "attr", "")) in {"c", "columns"}:
                yield f"{node.lineno}: {ast.unparse(node)}"


def test_no_column_is_taken_for_a_method() -> None:
    named = {column.name for table in tables.metadata.tables.values() for column in table.columns}
    assert named & METHODS == {"clear"}
    found = [
        f"{file.relative_to(PACKAGE)}:{each}" for file in PACKAGE.rglob("*.py") for each in compared(file.read_text())
    ]
    assert found == []


def test_one_that_is_would_be_found() -> None:
    text = "c = t.runs.c\nx = (c.flow == 1) & (c.clear == 2) & (t.runs.c.values == 3) & (c['clear'] == 4)\nc.keys()\n"
    assert sorted(compared(text)) == ["2: c.clear", "2: t.runs.c.values"]
