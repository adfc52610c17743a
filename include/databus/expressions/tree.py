"""Syntax tree of an expression, as the text says it: names are kept, nothing is rewritten."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Literal:
    """A constant in the text.

    Attributes:
        value: Python value; dates are days, timestamps microseconds since 1970.
        type: its Spark type.
    """

    value: Any
    type: str


@dataclass(frozen=True)
class Name:
    """A column in the text.

    Attributes:
        name: as written, without quotes.
        image: "row", "before" or "after".
    """

    name: str
    image: str


@dataclass(frozen=True)
class Call:
    """A function or an operator with its arguments.

    Attributes:
        name: lower case; operators by their sign, predicates by their word: "+", "<=>", "like", "in", "and".
        arguments: in text order.
    """

    name: str
    arguments: tuple[Tree, ...]


@dataclass(frozen=True)
class Conversion:
    """A CAST in the text.

    Attributes:
        value: the expression to convert.
        type: target type as written.
        trying: whether a value that cannot be converted becomes NULL (TRY_CAST).
    """

    value: Tree
    type: str
    trying: bool


@dataclass(frozen=True)
class Cases:
    """A CASE of conditions; one with a value is written as conditions that compare it.

    Attributes:
        branches: (condition, result) in text order.
        otherwise: result where no condition is true; NULL without ELSE.
    """

    branches: tuple[tuple[Tree, Tree], ...]
    otherwise: Tree


Tree = Literal | Name | Call | Conversion | Cases

NULL = Literal(None, "void")


def names_in(tree: Tree) -> Iterator[Name]:
    """Yield the columns of a tree, in no order."""
    if isinstance(tree, Name):
        yield tree
    for part in _parts(tree):
        yield from names_in(part)


def depth_of(tree: Tree) -> int:
    """Return how many trees stand inside one another at most; a chain of signs stands as deep as it is long."""
    depth, level = 0, [tree]
    while level:
        depth, level = depth + 1, [part for each in level for part in _parts(each)]
    return depth


def _parts(tree: Tree) -> tuple[Tree, ...]:
    if isinstance(tree, Call):
        return tree.arguments
    if isinstance(tree, Conversion):
        return (tree.value,)
    if isinstance(tree, Cases):
        return (*(part for branch in tree.branches for part in branch), tree.otherwise)
    return ()
