"""Types of expressions as far as they are known without Spark, since a plan knows the columns of its outputs.

A rule stands here only where Spark's result type follows from the types of the arguments alone, in ANSI mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from databus.rows.frames.computed import spark_type_named

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_WHOLE = ("tinyint", "smallint", "int", "bigint")
_INT_MOST = 2**31 - 1
_LONG_MOST = 2**63 - 1


def expression_type(text: str, type_of: Callable[[str], str]) -> str:
    """Return the Spark type of an expression, "" where no rule says it.

    Args:
        text: the expression.
        type_of: returns the Spark type of a column, "" for none.

    Raises:
        ValueError: it is a cast to what no column can be.
    """
    import sqlglot
    from sqlglot import exp

    def of(node: Any) -> str:
        return next((rule(node) for kinds, rule in rules if isinstance(node, kinds)), "")

    def each(*nodes: Any) -> list[str]:
        return [of(node) for node in nodes if not isinstance(node, exp.Null)]

    # The type of a node by its class; `this`, `expression` and `expressions` are sqlglot's names of arguments.
    rules: list[tuple[Any, Callable[[Any], str]]] = [
        (exp.Paren, lambda n: of(n.this)),
        (exp.Cast, lambda n: spark_type_named(n.args["to"].sql("spark").replace(" ", ""))),
        (exp.Column, lambda n: type_of(n.name)),
        (exp.Literal, _literal),
        (exp.Predicate | exp.Connector | exp.Not | exp.Boolean, lambda _: "boolean"),
        (exp.Concat, lambda n: _text(each(*n.expressions))),
        (exp.DPipe, lambda n: _text(each(n.this, n.expression))),
        (exp.Left | exp.Right | exp.Substring, lambda n: _text(each(n.this))),
        (exp.Coalesce, lambda n: _same(each(n.this, *n.expressions))),
        (exp.If, lambda n: _same(each(n.args["true"], n.args.get("false") or exp.Null()))),
        (
            exp.Case,
            lambda n: _same(each(*(i.args["true"] for i in n.args["ifs"]), n.args.get("default") or exp.Null())),
        ),
        (exp.Neg | exp.Abs, lambda n: _number(each(n.this))),
        (exp.Add | exp.Sub | exp.Mul, lambda n: _number(each(n.this, n.expression))),
        (exp.Div, lambda n: "double" if _number(each(n.this, n.expression)) else ""),
        (exp.Upper | exp.Lower | exp.Trim | exp.Initcap | exp.Replace | exp.RegexpReplace, lambda _: "string"),
        (exp.MD5 | exp.SHA | exp.SHA2 | exp.Hex | exp.ConcatWs | exp.JSONExtractScalar, lambda _: "string"),
        (exp.Length | exp.Year | exp.Month | exp.Day | exp.Quarter, lambda _: "int"),
        (exp.Hour | exp.Minute | exp.Second, lambda _: "int"),
    ]
    return of(sqlglot.parse_one(text, read="spark"))


def _literal(node: Expr) -> str:
    if node.is_string:
        return "string"
    digits = node.name
    if not digits.isdigit():
        return ""
    return "int" if int(digits) <= _INT_MOST else "bigint" if int(digits) <= _LONG_MOST else ""


def _text(types: list[str]) -> str:
    """Return "string" where no argument is binary, in which case the result would be."""
    return "string" if types and all(types) and "binary" not in types else ""


def _same(types: list[str]) -> str:
    return types[0] if len(set(types)) == 1 else ""


def _number(types: list[str]) -> str:
    if not types or not all(each in (*_WHOLE, "double") for each in types):
        return ""
    return "double" if "double" in types else max(types, key=_WHOLE.index)
