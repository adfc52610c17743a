"""Random typed expressions over every registered function: what a function takes is found by asking it."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa

from databus.expressions.binding import call, constant
from databus.expressions.errors import NotCompiledError
from databus.expressions.functions import names
from databus.expressions.functions.registry import FORMS
from databus.expressions.nodes import ColumnNode, ConstantNode, TypedNode
from databus.expressions.parser import parse
from databus.expressions.tree import Literal
from tests.spark.expressions.differ import compiled, spark_type
from tests.spark.expressions.nasty import VALUES

_OPERATORS = frozenset(
    ["+", "-", "*", "/", "%", "||", "=", "<>", "<", "<=", ">", ">=", "<=>", "&", "|", "^", "<<", ">>", ">>>"]
)
_LITERALS = (
    *("0", "1", "-1", "2", "7", "100", "-3", "3L", "1.5", "0.01", "-2.25", "100.0", "1e2", "2.5D", "0D", "5Y", "9S"),
    *("'a'", "''", "'b%'", "'%a%'", "'é'", "'10'", "' '", "'abc'", "'2020-02-29'", "'_b_'", "TRUE", "FALSE", "NULL"),
    *("DATE'2020-02-29'", "TIMESTAMP'2020-02-29 12:34:56.789'", "TIMESTAMP_NTZ'1999-12-31 23:59:59'", "X'61FF'"),
)
_TRIES = 120
"""Random argument lists that each function is asked for, per number of arguments."""


@dataclass(frozen=True)
class Shape:
    """Arguments that a function takes: for each the literal's text, or the type that an expression must have."""

    name: str
    arguments: tuple[tuple[str, str], ...]


class Expressions:
    """Generator of expressions over the columns of `nasty`.

    Attributes:
        shapes: type → shapes of calls that give it.
    """

    def __init__(self, seed: int):
        self._random = random.Random(seed)
        self._leaves: dict[str, list[str]] = defaultdict(list)
        for name, (kind, _) in VALUES.items():
            self._leaves[spark_type(kind)].append(name)
        self.shapes: dict[str, list[Shape]] = defaultdict(list)
        for name in names():
            if name not in FORMS and name not in ("cast", "try_cast") and not name.startswith("is "):
                for shape, kind in self._asked(name):
                    self.shapes[kind].append(shape)

    def _asked(self, name: str) -> Iterator[tuple[Shape, str]]:
        found: dict[Shape, str] = {}
        for count in range(0 if name not in _OPERATORS else 2, 3 if name in _OPERATORS else 5):
            for _ in range(_TRIES if count else 1):
                arguments = tuple(self._argument() for _ in range(count))
                try:
                    kind = call(name, [_node(text, kind) for kind, text in arguments]).type
                except NotCompiledError:
                    continue
                found[Shape(name, arguments)] = kind
        yield from found.items()

    def _argument(self) -> tuple[str, str]:
        """Return (type, "") of an expression, or ("", text) of a literal."""
        if self._random.random() < 0.4:
            return "", self._random.choice(_LITERALS)
        return self._random.choice(list(self._leaves)), ""

    def expression(self, kind: str | None = None, depth: int = 4) -> str:
        """Return the text of an expression of a type; a column where none of it is known."""
        if kind is None:
            kind = self._random.choice(sorted(self._leaves if self._random.random() < 0.7 else self.shapes))
        leaves = self._leaves.get(kind)
        if leaves and (depth <= 0 or self._random.random() < 0.15):
            return self._random.choice(leaves)
        if depth > 0 and self._random.random() < 0.25:
            return self._form(kind, depth - 1)
        known = self.shapes.get(kind)
        if not known:
            return self._random.choice(leaves) if leaves else f"CAST(NULL AS {kind})"
        by_name: dict[str, list[Shape]] = defaultdict(list)
        for shape in known:
            by_name[shape.name].append(shape)
        shape = self._random.choice(by_name[self._random.choice(sorted(by_name))])
        return _text(shape.name, [text or self.expression(wanted, depth - 1) for wanted, text in shape.arguments])

    def _form(self, kind: str, depth: int) -> str:
        pick = self._random.randrange(8)
        if kind == "boolean" and pick < 6:
            other = self._random.choice(sorted(self._leaves))
            one, two, three = (self.expression(other, depth) for _ in range(3))
            left, right = self.expression("boolean", depth), self.expression("boolean", depth)
            return (
                f"({left} AND {right})",
                f"({left} OR {right})",
                f"({one} IN ({two}, {three}, NULL))",
                f"({one} NOT BETWEEN {two} AND {three})",
                f"({left} IS NOT TRUE)",
                f"({one} IS DISTINCT FROM {two})",
            )[pick]
        one, two, condition = (
            self.expression(kind, depth),
            self.expression(kind, depth),
            self.expression("boolean", depth),
        )
        return (
            f"CASE WHEN {condition} THEN {one} WHEN {self.expression('boolean', depth)} THEN {two} END",
            f"CASE {one} WHEN {two} THEN {self.expression(kind, depth)} ELSE {one} END",
            f"if({condition}, {one}, {two})",
            f"coalesce({one}, {two})",
            f"nullif({one}, {two})",
            f"nvl2({condition}, {one}, {two})",
            f"nvl({one}, {two})",
            f"TRY_CAST({self.expression(None, depth)} AS {kind})",
        )[pick]

    def compiled(self, count: int, table: pa.Table) -> list[str]:
        """Return `count` different expressions that compile and name a column."""
        found: dict[str, None] = {}
        while len(found) < count:
            text = self.expression()
            try:
                if compiled(text, table).inputs:
                    found[text] = None
            except NotCompiledError:
                continue
        return list(found)


def _node(text: str, kind: str) -> TypedNode:
    if not text:
        return ColumnNode((kind, "row"), kind)
    literal = parse(text)
    assert isinstance(literal, Literal)
    found = constant(literal)
    assert isinstance(found, ConstantNode)
    return found


def _text(name: str, arguments: list[str]) -> str:
    if name in _OPERATORS or name in ("div", "like", "ilike", "rlike"):
        return f"({f' {name} '.join(arguments)})" if len(arguments) == 2 else f"{name}({', '.join(arguments)})"
    if name == "not":
        return f"(NOT {arguments[0]})"
    return f"{name}({', '.join(arguments)})"
