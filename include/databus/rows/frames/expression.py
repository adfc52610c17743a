"""Users' SQL conditions: parsed when a flow is built, bound to each table's columns when a batch is.

The text is kept as written; only the column names in it are replaced by typed access to the row, by their place in
the text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

PSEUDO_COLUMNS = {"_op": "op", "_database": "database", "_table": "table", "_ts_ms": "ts_ms"}
"""Name in an expression → column of the row it stands for."""

IMAGES = ("before", "after")
"""Qualifiers that pick an image: `before.status <> after.status`."""

_UNSTABLE = frozenset(
    [
        *("rand", "randn", "random", "randstr", "uniform", "uuid", "shuffle", "monotonically_increasing_id"),
        *("now", "curdate", "current_date", "current_time", "current_timestamp", "localtimestamp", "current_timezone"),
        *("current_user", "user", "session_user", "current_database", "current_schema", "current_catalog", "version"),
        *("spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"),
        *("reflect", "try_reflect", "java_method"),
    ]
)
_STATEMENT_TIME_WITHOUT_ARGUMENTS = frozenset({"unix_timestamp", "unix_date", "to_unix_timestamp"})
_TIME_WORDS = frozenset({"now", "today", "tomorrow", "yesterday"})


@dataclass(frozen=True)
class Identifier:
    """A column name in the text.

    Attributes:
        start: offset of its first character, of the qualifier's where there is one.
        stop: offset after its last character.
        image: "before" or "after" when qualified, else "row".
        name: name without quotes.
    """

    start: int
    stop: int
    image: str
    name: str


@dataclass(frozen=True)
class Expression:
    """A deterministic expression over one row.

    Attributes:
        text: SQL as the user wrote it.
        identifiers: the column names in it, in text order.
    """

    text: str
    identifiers: tuple[Identifier, ...]

    def bind(self, access: Callable[[str, str], str]) -> str:
        """Return Spark SQL over the row shape; `access(name, image)` gives the SQL that stands for a column."""
        parts: list[str] = []
        done = 0
        for found in self.identifiers:
            parts += [self.text[done : found.start], access(found.name, found.image)]
            done = found.stop
        # The line break ends a comment that the user may have closed the text with.
        return f"({''.join(parts)}{self.text[done:]}\n)"


@lru_cache(256)
def parse_expression(text: str) -> Expression:
    """Parse a condition in Spark's SQL dialect.

    Raises:
        ValueError: not one expression over one row, or its value could differ between two runs over the same row.
    """
    import sqlglot
    from sqlglot import exp
    from sqlglot.errors import SqlglotError

    try:
        tokens = sqlglot.tokenize(text, read="spark")
        trees = [tree for tree in sqlglot.parse(text, read="spark") if tree is not None]
    except SqlglotError as error:
        reason = str(error).splitlines()[0]
        raise ValueError(f"cannot parse {text!r}: {reason}") from None
    except RecursionError:
        raise ValueError(f"{text[:80]!r}… stands too deep inside itself to be parsed: take parentheses out") from None
    if len(trees) != 1:
        raise ValueError(f"{text!r} must be one SQL expression")
    tree = trees[0]
    _refuse_beyond_one_row(tree, text)
    names = [token.text.lower() for token in tokens]
    for k, token in enumerate(tokens[:-1]):
        if token.token_type == sqlglot.TokenType.IDENTIFIER or names[k + 1] != "(":
            continue
        empty = k + 2 < len(names) and names[k + 2] == ")"
        if names[k] in _UNSTABLE or (empty and names[k] in _STATEMENT_TIME_WITHOUT_ARGUMENTS):
            raise _unstable(f"{names[k]}()", text)
    for node in tree.walk():
        if isinstance(
            node, exp.CurrentDate | exp.CurrentTimestamp | exp.CurrentTime | exp.CurrentUser | exp.Localtimestamp
        ):
            raise _unstable(node.key, text)
        if isinstance(node, exp.Cast) and node.this.is_string and node.this.name.strip().lower() in _TIME_WORDS:
            raise _unstable(repr(node.this.name), text)
    found = sorted((_identifier(column, text) for column in tree.find_all(exp.Column)), key=lambda i: i.start)
    return Expression(text, tuple(found))


def _refuse_beyond_one_row(tree: Expr, text: str) -> None:
    from sqlglot import exp

    refused = {
        exp.Query: "a subquery",
        exp.Window: "a window function",
        exp.AggFunc: "an aggregate",
        exp.UDTF: "a table function",
        exp.Explode: "a table function",
        exp.Star: "*",
        exp.Placeholder: "a parameter",
        exp.Parameter: "a parameter",
    }
    for node in tree.walk():
        for kind, what in refused.items():
            if isinstance(node, kind):
                raise ValueError(f"{text!r} has {what}: an expression sees one row only")
    if not isinstance(tree, exp.Condition):
        raise ValueError(f"{text!r} is a statement, a condition is an expression")


def _unstable(what: str, text: str) -> ValueError:
    return ValueError(
        f"{text!r} uses {what}, which may differ when a batch is run again over the same rows "
        "(for times, compare with _ts_ms, the commit time)"
    )


def _identifier(column: Expr, text: str) -> Identifier:
    from sqlglot import exp

    if not isinstance(column, exp.Column) or not isinstance(column.this, exp.Identifier):
        raise ValueError(f"{text!r}: {column} is not a column name")
    name, qualifier = column.this, column.args.get("table")
    if column.args.get("db") is not None or isinstance(column.parent, exp.Dot):
        raise ValueError(f"{text!r}: {column.sql('spark')}: columns are named alone, or as before.x and after.x")
    if qualifier is not None and qualifier.name.lower() not in IMAGES:
        raise ValueError(f"{text!r}: {qualifier.name}.{name.name}: the only qualifiers are before and after")
    first = qualifier or name
    start, stop = first.meta["start"], name.meta["end"] + 1
    return Identifier(start, stop, qualifier.name.lower() if qualifier else "row", name.name)
