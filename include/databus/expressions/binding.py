"""Types of an expression's parts: names are bound to columns, arguments converted, calls resolved to kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from databus.expressions.casts import cast_kernel
from databus.expressions.errors import ExpressionError, NotCompiledError
from databus.expressions.functions.registry import MISSING, Arguments, Resolved, resolve
from databus.expressions.literals import time_literal
from databus.expressions.nodes import (
    CallNode,
    CaseNode,
    CoalesceNode,
    ColumnNode,
    ConstantNode,
    Key,
    LogicNode,
    Rows,
    TypedNode,
)
from databus.expressions.tree import NULL, Call, Cases, Conversion, Literal, Name, Tree
from databus.expressions.types import VOID, arrow_of, type_named, widest

_NOWHERE = Rows({}, 1)
_STAMPS = ("timestamp", "timestamp_ntz")
_NULL_TESTS = ("isnull", "isnotnull")


class Binding:
    """Binding of one expression.

    Attributes:
        columns: (name, image) → Spark type of the columns named so far.
    """

    def __init__(self, types: Callable[[str, str], str | None]):
        self._types = types
        self.columns: dict[Key, str] = {}
        self._forms: dict[str, Callable[[Call], TypedNode]] = {
            "and": self._logic,
            "or": self._logic,
            "if": self._if,
            "nvl2": self._nvl2,
            "nullif": self._nullif,
            "in": self._in,
            "coalesce": self._coalesce,
            "nvl": self._coalesce,
            "ifnull": self._coalesce,
        }

    def node(self, tree: Tree) -> TypedNode:
        """Return the typed expression of a tree.

        Raises:
            NotCompiledError: a part without a proven meaning.
        """
        if isinstance(tree, Literal):
            return constant(tree)
        if isinstance(tree, Name):
            return self._column(tree)
        if isinstance(tree, Conversion):
            return converted(self.node(tree.value), type_named(tree.type), trying=tree.trying)
        if isinstance(tree, Cases):
            return self._case(tree)
        if form := self._forms.get(tree.name):
            return form(tree)
        nodes = [self.node(argument) for argument in tree.arguments]
        written = tuple(isinstance(argument, Literal) for argument in tree.arguments)
        return call(tree.name, nodes, written)

    def _column(self, name: Name) -> TypedNode:
        key = name.name, name.image
        found = self._types(*key)
        if found is None:
            raise NotCompiledError(f"no column {name.name}")
        self.columns[key] = kind = type_named(found)
        return ColumnNode(key, kind)

    def _case(self, tree: Cases) -> TypedNode:
        conditions = [_boolean(self.node(condition), "case") for condition, _ in tree.branches]
        results = [self.node(result) for _, result in tree.branches] + [self.node(tree.otherwise)]
        return _case_of(conditions, results, widest([result.type for result in results], "case"))

    def _if(self, tree: Call) -> TypedNode:
        if len(tree.arguments) != 3:
            raise NotCompiledError("if without three arguments")
        condition, *results = tree.arguments
        return self._case(Cases(((condition, results[0]),), results[1]))

    def _nvl2(self, tree: Call) -> TypedNode:
        if len(tree.arguments) != 3:
            raise NotCompiledError("nvl2 without three arguments")
        value, there, none = tree.arguments
        return self._case(Cases(((Call("isnotnull", (value,)), there),), none))

    def _nullif(self, tree: Call) -> TypedNode:
        if len(tree.arguments) != 2:
            raise NotCompiledError("nullif without two arguments")
        return self._case(Cases(((Call("=", tree.arguments), NULL),), tree.arguments[0]))

    def _coalesce(self, tree: Call) -> TypedNode:
        if not tree.arguments or (tree.name != "coalesce" and len(tree.arguments) != 2):
            raise NotCompiledError(f"{tree.name} of {len(tree.arguments)} arguments")
        nodes = [self.node(argument) for argument in tree.arguments]
        kind = widest([node.type for node in nodes], tree.name)
        return CoalesceNode(tuple(converted(node, kind) for node in nodes), kind)

    def _logic(self, tree: Call) -> TypedNode:
        left, right = (_boolean(self.node(argument), tree.name) for argument in tree.arguments)
        return LogicNode(tree.name == "or", left, right)

    def _in(self, tree: Call) -> TypedNode:
        if len(tree.arguments) < 2:
            raise NotCompiledError("in without values")
        nodes = [self.node(argument) for argument in tree.arguments]
        kind = widest([node.type for node in nodes], "in")
        value, *elements = (converted(node, kind) for node in nodes)
        if kind in ("float", "double") and len(elements) > 10:
            raise NotCompiledError(
                f"in of more than ten values of type {kind}"
            )  # Spark makes a set, of which -0.0 <> 0.0
        if len(elements) > 3 and all(isinstance(element, ConstantNode) for element in elements):
            return call("_in", [value, *elements])
        found = call("=", [value, elements[0]])
        for element in elements[1:]:
            found = LogicNode(True, found, call("=", [value, element]))
        return found


def call(name: str, nodes: Sequence[TypedNode], written: tuple[bool, ...] | None = None) -> TypedNode:
    """Return the call of a registered function, its arguments converted as it asks; a constant where all are.

    Args:
        name: as registered.
        nodes: its arguments.
        written: which of them are literals in the text; by default the constants.

    Raises:
        NotCompiledError: not a function that is compiled, or not with these arguments.
    """
    if name in _NULL_TESTS:
        nodes = [_as_digits(node) for node in nodes]
    literals = tuple(_python(node) for node in nodes)
    if written is None:
        written = tuple(literal is not MISSING for literal in literals)
    resolved = resolve(Arguments(name, tuple(node.type for node in nodes), literals, written=written))
    if len(resolved.arguments) != len(nodes):
        raise NotCompiledError(f"{name} of {len(nodes)} arguments")
    arguments = tuple(converted(node, kind) for node, kind in zip(nodes, resolved.arguments, strict=True))
    return _folded(CallNode(name, resolved, arguments))


def _as_digits(node: TypedNode) -> TypedNode:
    """Return a value inside JSON with its number as it stands, where the text that Java gives it does not count."""
    if isinstance(node, CallNode) and node.name == "get_json_object":
        return call("_json_digits", node.arguments)
    return node


def _python(node: TypedNode) -> Any:
    """Return a constant's Python value; MISSING where it is none, or Python has no such date."""
    if not isinstance(node, ConstantNode):
        return MISSING
    try:
        return node.value.as_py()
    except (OverflowError, ValueError):
        return MISSING


def converted(node: TypedNode, kind: str, *, trying: bool = False) -> TypedNode:
    """Return an expression cast to a type.

    Raises:
        NotCompiledError: there is no such cast here.
    """
    if node.type == kind:
        return node
    if isinstance(node, ConstantNode) and node.type == "string" and kind in _STAMPS and node.value.is_valid:
        return constant(time_literal(kind, node.value.as_py()))  # a column's texts may name zones
    if kind == "double":
        node = _as_digits(node)  # whatever text Java gives a double, it stands for that double
    kernel = cast_kernel(node.type, kind, not trying)
    return _folded(CallNode("cast", Resolved(kind, (node.type,), kernel), (node,)))


def _folded(node: CallNode) -> TypedNode:
    """Return the constant that a call of constants gives.

    Raises:
        NotCompiledError: it fails, and Spark fails before the first row, or not at all where no row needs it.
    """
    if not node.arguments or not all(isinstance(argument, ConstantNode) for argument in node.arguments):
        return node
    try:
        found = node.values(_NOWHERE)
    except ExpressionError as error:
        raise NotCompiledError(f"a constant that fails: {error.message}") from None
    except Exception as error:
        raise NotCompiledError(f"{node.name} of constants: {error}") from error
    return ConstantNode(found if isinstance(found, pa.Scalar) else found[0], node.type)


def constant(literal: Literal) -> TypedNode:
    """Return the typed expression of a literal."""
    kind = arrow_of(literal.type)
    if literal.value is not None and pa.types.is_temporal(kind):
        whole = pa.int32() if literal.type == "date" else pa.int64()
        return ConstantNode(pa.scalar(literal.value, whole).cast(kind), literal.type)
    return ConstantNode(pa.scalar(literal.value, kind), literal.type)


def _boolean(node: TypedNode, what: str) -> TypedNode:
    if node.type not in ("boolean", VOID):
        raise NotCompiledError(f"{what} of {node.type}")
    return converted(node, "boolean")


def _case_of(conditions: Sequence[TypedNode], results: Sequence[TypedNode], kind: str) -> TypedNode:
    *chosen, otherwise = (converted(result, kind) for result in results)
    return CaseNode(tuple(zip(conditions, chosen, strict=True)), otherwise, kind)
