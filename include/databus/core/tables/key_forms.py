"""Forms of keys: how a source writes the values of key columns as text, which an ALTER of a type may change."""

from __future__ import annotations

from collections.abc import Sequence

from databus.core.tables.schemas import ColumnSchema, TableSchema

_WHOLE = frozenset({"tinyint", "smallint", "mediumint", "int", "bigint"})
_TEXT = frozenset({"char", "varchar", "tinytext", "text", "mediumtext", "longtext"})
_LISTED = frozenset({"enum", "set"})
_BYTES = frozenset({"varbinary", "tinyblob", "blob", "mediumblob", "longblob"})
_ALIKE = {("year", "whole"), ("text", "listed"), ("bit", "whole"), ("whole", "bit")}
"""Forms of which one becomes the other with the text it had: of a BIT its number, of an ENUM its word."""

_QUOTED = frozenset({"date", "uuid", "inet4", "inet6"})
_LONGEST_NUMBER = 38
"""Digits of a DECIMAL up to which it is a number in JSON, and quoted beyond."""


def key_forms(table: TableSchema) -> tuple[str, ...]:
    """Return the form of each key column's text, in key order: equal ones write equal values alike.

    INT and BIGINT have one, VARCHAR(10) and VARCHAR(20), too; DECIMAL(10,0) and DECIMAL(10,2) have not, which write "1"
    and "1.00". A key of one column is its plain text, of several a JSON array with texts in quotes. None where a key
    column is not among the columns.
    """
    columns = {column.name: column for column in table.columns}
    if any(name not in columns for name in table.primary_key):
        return ()
    alone = len(table.primary_key) == 1
    return tuple(_form(columns[name], alone=alone) for name in table.primary_key)


def keeps_text(before: Sequence[str], now: Sequence[str]) -> bool:
    """Return whether values of one form have the same text after an ALTER to another; the way back may differ.

    Args:
        before: the forms of a key's columns; empty where they are not known, which is taken for the same.
        now: the forms behind the ALTER; so, too.
    """
    if not before or not now:
        return True
    pairs = zip(before, now, strict=False)
    return len(before) == len(now) and all(_keeps(old, new, alone=len(now) == 1) for old, new in pairs)


def _keeps(before: str, now: str, *, alone: bool) -> bool:
    if before == now:
        return True
    if now == "text":
        return before in (*_QUOTED, "listed") or (
            alone and (before in ("whole", "year") or before.startswith("decimal("))
        )
    return (before, now) in _ALIKE or (now == "bytes" and before.startswith("binary("))


def _form(column: ColumnSchema, *, alone: bool) -> str:
    kind = column.type.removesuffix(" unsigned")
    word, _, sizes = kind.removesuffix(")").partition("(")
    if word == "decimal" and sizes:
        precision, _, scale = sizes.partition(",")
        quoted = "" if alone or int(precision) <= _LONGEST_NUMBER else "quoted "
        return quoted + (f"decimal({scale})" if int(scale or 0) else "whole")
    for words, form in ((_WHOLE, "whole"), (_TEXT, "text"), (_LISTED, "listed"), (_BYTES, "bytes")):
        if word in words:
            return form
    if word == "bit":
        return "bit"  # whatever its length
    return "date" if word == "newdate" else kind
