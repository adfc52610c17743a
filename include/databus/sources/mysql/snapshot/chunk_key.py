"""Chunk key of a table: the index by which it is read in chunks, and conditions on it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from databus.binlog.schema_history.definition import TableDefinition
from databus.sources.mysql.snapshot.cursor import ORDERED_TYPES, Cursor, KeyColumn, quoted

Query = Callable[[str], list[tuple[Any, ...]]]
"""Runs a statement and returns its rows, as `MysqlServer.query` and `ServerConnection.query` do."""


@dataclass(frozen=True)
class ChunkKey:
    """Chunk key of a table: a unique index over whole NOT NULL columns.

    Attributes:
        index: name of the index.
        columns: its columns in its order.
        beside: name of a short column that the index lacks, to be asked for too; "" for none. MySQL walks an index from
            its beginning, not a range of it with ENUM or SET, while it needs nothing but the index.
    """

    index: str
    columns: tuple[KeyColumn, ...]
    beside: str = ""

    @property
    def mark(self) -> str:
        """Short text that is another when the order of the rows may be another: what a cursor begins with."""
        return hashlib.sha256("\n".join(column.mark for column in self.columns).encode()).hexdigest()[:12]

    def continues(self, after: Cursor) -> bool:
        """Tell whether a cursor is one of this key: else the table is to be read from its beginning."""
        return not after or (after[0] == self.mark and len(after) == len(self.columns) + 1)

    @property
    def asked(self) -> str:
        """SQL expressions of which `cursor` takes the values."""
        return ", ".join([*(column.asked for column in self.columns), *([quoted(self.beside)] if self.beside else [])])

    def cursor(self, values: Sequence[Any]) -> Cursor:
        """Return the cursor of a row.

        Args:
            values: its values of `asked`.
        """
        return (self.mark, *(column.literal(value) for column, value in zip(self.columns, values, strict=False)))

    def behind(self, cursor: Cursor) -> str:
        """Return the condition of rows behind a cursor."""
        found = self._nested(cursor, lambda column, literal, _: column.behind(literal))
        # An ENUM that is one value alone, since no member is behind it, is sorted once more by both servers.
        return found.replace("(FALSE OR ", f"({self.columns[0].behind_all} OR ", 1) if found[:7] == "(FALSE " else found

    def up_to(self, cursor: Cursor) -> str:
        """Return the condition of rows up to a cursor, its own row among them."""
        return self._nested(cursor, lambda column, literal, last: column.before(literal, or_equal=last))

    def ordered(self, *, reverse: bool = False) -> str:
        """Return an ORDER BY in the order of the index or against it."""
        return "ORDER BY " + ", ".join(c.reversed if reverse else c.ordered for c in self.columns)

    @property
    def forced(self) -> str:
        """Index hint, behind the table's name."""
        return f"FORCE INDEX ({quoted(self.index)})"

    def _nested(self, cursor: Cursor, compared: Callable[[KeyColumn, str, bool], str]) -> str:
        """Return a > x OR (a = x AND (b > y OR …)): both servers make ranges of it, of row constructors none."""
        pairs = list(zip(self.columns, cursor[1:], strict=True))
        column, literal = pairs.pop()
        found = compared(column, literal, True)
        for column, literal in reversed(pairs):
            found = f"({compared(column, literal, False)} OR ({column.equals(literal)} AND {found}))"
        return found


def chunk_key(query: Query, definition: TableDefinition, after: Cursor = ()) -> ChunkKey | None:
    """Return the index by which a table is read in chunks; None when it has none and must be read in one go.

    The primary key, else the narrowest unique index of NOT NULL columns: not one over beginnings of values, over
    expressions, invisible, or by hash. To be asked on the connection that reads the chunks, for each anew.

    Args:
        query: runs a statement.
        definition: the table as it is now.
        after: cursor of the chunk before, whose key goes before all others while the table has it.

    Raises:
        SourceError: the table is gone, or the account may not read it.
    """
    place = f"{quoted(definition.database)}.{quoted(definition.table)}"
    collations = {text(row[0]): text(row[2]) for row in query(f"SHOW FULL COLUMNS FROM {place}")}
    found = list(_usable(query(f"SHOW INDEX FROM {place}"), definition, collations))
    narrow = sorted(found, key=lambda key: (key.index != "PRIMARY", sum(c.width for c in key.columns), key.index))
    return next((key for key in narrow if key.continues(after)), narrow[0] if narrow else None)


def with_logged_key(query: Query, definition: TableDefinition) -> TableDefinition:
    """Return a table with the primary key that its log will name.

    Without a primary key both servers take the first unique index of whole NOT NULL columns for it, also in the log's
    metadata, so that rows of a snapshot must have the same key.

    Args:
        query: runs a statement.
        definition: the table as it is now.

    Raises:
        SourceError: the table is gone, or the account may not read it.
    """
    if definition.primary_key:
        return definition
    rows = query(f"SHOW INDEX FROM {quoted(definition.database)}.{quoted(definition.table)}")
    for _, found in groupby(rows, key=lambda row: text(row[2])):
        parts = sorted(found, key=lambda part: int(part[3]))
        if all(_stands_for_primary(part) for part in parts):
            return replace(definition, primary_key=tuple(text(part[4]) for part in parts))
    return definition


def _stands_for_primary(part: tuple[Any, ...]) -> bool:
    """Tell whether a part of an index, one of the rows of SHOW INDEX, lets the servers take it for a primary key."""
    return (
        not int(part[1]) and part[4] is not None and part[7] is None and not text(part[9]) and text(part[10]) != "HASH"
    )


def _usable(rows: list[tuple[Any, ...]], definition: TableDefinition, collations: dict[str, str]) -> Iterator[ChunkKey]:
    """Yield the keys among a table's indexes."""
    declared = {column.name: column for column in definition.columns}
    for name, parts in groupby(rows, key=lambda row: text(row[2])):
        columns = []
        for part in sorted(parts, key=lambda part: int(part[3])):
            column = declared.get(text(part[4]))
            if definition.versioned and (column is None or column.generated == "row end"):
                continue  # rows as they are now all have the same end
            if column is None or not _walked(part) or column.type.name not in ORDERED_TYPES:
                break
            collation = collations.get(column.name, "")
            if column.type.name == "char" and "_nopad_" in collation:
                break  # MariaDB orders these in the index with the spaces that it leaves out when it compares
            columns.append(KeyColumn(column.name, column.type, collation, text(part[5]) == "D"))
        else:
            if columns:
                yield ChunkKey(name, tuple(columns), _beside(name, columns, definition))


def _beside(index: str, columns: list[KeyColumn], definition: TableDefinition) -> str:
    """Return the shortest column beside a primary key with ENUM or SET; "" for other keys, which need none."""
    if index != "PRIMARY" or not any(column.numbered for column in columns):
        return ""
    key = {column.name for column in columns}
    others = [KeyColumn(c.name, c.type) for c in definition.columns if c.name not in key and c.generated != "virtual"]
    short = [column for column in others if column.type.name in ORDERED_TYPES]
    return min(short, key=lambda column: column.width).name if short else ""


def _walked(part: tuple[Any, ...]) -> bool:
    """Tell whether the server can walk a part of an index, one of the rows of SHOW INDEX, over whole values."""
    unique, whole, nullable, kind = not int(part[1]), part[7] is None, text(part[9]), text(part[10])
    # The 14th column is Visible of MySQL, which has a 15th, or Ignored of MariaDB.
    shown = len(part) < 14 or text(part[13]).upper() == ("YES" if len(part) > 14 else "NO")
    return unique and whole and nullable != "YES" and kind == "BTREE" and shown


def text(value: Any) -> str:
    """Return a value of a SHOW statement as text, NULL as ""."""
    return "" if value is None else value.decode() if isinstance(value, bytes) else str(value)
