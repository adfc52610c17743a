"""Table selection of a transform or check, and their columns."""

from __future__ import annotations

import fnmatch
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from databus.core.errors.batch import TransformError
from databus.core.tables.schemas import TableSchema
from databus.rows.frames.changes import FrameChanges
from databus.rows.frames.fields import Field

EVERY_TABLE = ("*",)

_log = logging.getLogger(__name__)


def matches(table: str, patterns: Sequence[str]) -> bool:
    """Return whether `database.table` matches one of the fnmatch patterns."""
    return any(fnmatch.fnmatchcase(table, pattern) for pattern in patterns)


def java_regex(pattern: str) -> str:
    """Return a regular expression for Spark's `rlike` that is true of just what an fnmatch pattern matches."""
    inside, escaped, translated = False, False, []
    for character in fnmatch.translate(pattern).removesuffix(r"\Z"):
        if inside and character == "[" and not escaped:
            translated.append("\\")  # in Java a class may hold another
        elif not escaped:
            inside = character == "[" or (inside and character != "]")
        escaped = character == "\\" and not escaped
        translated.append(character)
    return "^" + "".join(translated) + r"\z"  # rlike searches rather than matches, and Python's `\Z` is Java's `\z`


def named(patterns: Sequence[str]) -> Any:
    """Return a boolean Column, true of rows whose table matches by its name, statements too."""
    from pyspark.sql import functions as F  # noqa: N812 - the name all of Spark's users know

    table, found = F.concat_ws(".", "database", "table"), F.lit(False)
    for pattern in patterns:
        found |= table.rlike(java_regex(pattern))
    return found


def selected(changes: FrameChanges, patterns: Sequence[str]) -> Iterator[TableSchema]:
    """Yield the schemas whose table matches."""
    return (schema for schema in changes.tables if matches(schema.full_name, patterns))


def columns_of(
    changes: FrameChanges,
    patterns: Sequence[str],
    names: Sequence[str],
    what: str,
    former: Callable[[TableSchema], Sequence[str]] = lambda _: (),
) -> Iterator[tuple[TableSchema, list[str]]]:
    """Yield each matching table with those of the named columns it has, under their present names.

    A table that was meant by name or pattern must have them all, but for its `former` ones; for each `former` one that
    it still has, another may be lacking. For the pattern "*" a table without them is passed over, with a warning when
    no table of the batch has one: it may be a misspelling.

    Raises:
        TransformError: a table that `patterns` means lacks a column.
    """
    explicit = tuple(patterns) != EVERY_TABLE
    unseen = set(names)
    for schema in selected(changes, patterns):
        of_former = former(schema)
        fields = {name: changes.field(name, schema) for name in (*names, *of_former)}
        if explicit:
            for name in _lacking(names, of_former, fields):
                changes.require(name, schema, what)
        unseen -= {*of_former, *(name for name, field in fields.items() if field)}
        # Of two spellings of one column each is found; it is one.
        present = list(dict.fromkeys(field.column.name for field in fields.values() if field))
        if present:
            yield schema, present
    if unseen and not explicit and changes.tables and not changes.compared:
        _log.warning("%s: no table of this batch has the column %s", what, ", ".join(sorted(unseen)))


def _lacking(names: Sequence[str], former: Sequence[str], fields: Mapping[str, Field | None]) -> list[str]:
    """Return the columns that a table must have and has not; a definition with former names lacks as many new ones."""
    old = {name.casefold() for name in former}
    new = [name for name in names if name.casefold() not in old]
    still = {field.source for name, field in fields.items() if field and name.casefold() in old}
    return [name for name in new if fields[name] is None][len(still) :]


def refuse_key_columns(schema: TableSchema, names: Iterable[str], what: str) -> None:
    """Refuse to hide a key column: its value would still stand in every record's key.

    Raises:
        TransformError: a named column is part of the primary key.
    """
    hit = [name for name in names if name in schema.primary_key]
    if hit:
        raise TransformError(
            f"{what}: {', '.join(hit)} is part of the primary key of {schema.full_name}, which stands in every record",
            hint="The record key is always the source's primary key: hide it at the source, or leave the table out.",
            code="key_column_hidden",
        )
