"""Chunks of a table: their bounds, found by the server in the view that they are read in, and their size."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from databus.binlog.schema_history.definition import TableDefinition
from databus.core.errors.source import SnapshotKeyChangedError
from databus.sources.mysql.snapshot.chunk_key import ChunkKey, Query, text
from databus.sources.mysql.snapshot.cursor import Cursor, quoted
from databus.sources.mysql.snapshot.row_condition import checked_condition, row_condition

_NO_ROW = "none"
_BY_INDEX = (_NO_ROW, "const", "ref", "ref_or_null", "range")
"""Access types of EXPLAIN of which the server knows how many rows they read; where it knows of none it has no type."""


@dataclass(frozen=True)
class Chunk:
    """Chunk of a table: rows that are read together.

    Attributes:
        condition: SQL condition of its rows, to stand behind WHERE; rows of other chunks never meet it.
        upto: cursor behind its last row, for the next chunk; () of a chunk without bounds, which is the last.
        last: whether no row was behind it in the view.
        forced: index hint that may stand behind the table's name, for the server to read the range whatever its
            statistics say; "" for none.
    """

    condition: str
    upto: Cursor
    last: bool
    forced: str = ""


def next_chunk(
    query: Query, definition: TableDefinition, key: ChunkKey, after: Cursor, rows: int, where: str = ""
) -> Chunk | None:
    """Return the next chunk of a table; None when nothing is behind the cursor.

    To be asked on the connection, and in the consistent view, in which the chunk is then read. Reads `rows` entries of
    the index. A chunk has `rows` keys, the last one fewer; under `where` these may be all, some or none of its rows.
    Rows of a condition that the server finds by an index of its own are one chunk if they are few.

    Args:
        query: runs a statement in the view; the session's time zone is +00:00, its SQL mode ALLOW_INVALID_DATES alone.
        definition: the table.
        key: its key, as `chunk_key` finds it now.
        after: cursor of the chunk before; () for the first.
        rows: most rows of the chunk, from 1.
        where: condition that rows must meet, in SQL; "" for all.

    Raises:
        SnapshotConditionError: the condition is none, or the server refuses it.
        SnapshotKeyChangedError: the cursor is of another key than the table has now.
    """
    if not key.continues(after):
        raise SnapshotKeyChangedError(
            f"{definition.name}: the key {key.index} by which the table is read has changed since the last chunk"
        )
    condition = checked_condition(query, definition, where)
    if condition and not after and _few(query, definition, condition, rows):
        return Chunk(condition, (), last=True)
    behind = [key.behind(after)] if after else []
    asked = f"SELECT {key.asked} FROM {_place(definition)} {key.forced}{_where(behind)}"  # noqa: S608 - quoted
    found = query(f"{asked} {key.ordered()} LIMIT 2 OFFSET {rows - 1}")
    last = len(found) < 2
    if not found:
        found = query(f"{asked} {key.ordered(reverse=True)} LIMIT 1")
    if not found:
        return None
    upto = key.cursor(found[0])
    parts = [*behind, key.up_to(upto), *([condition] if condition else [])]
    return Chunk(" AND ".join(parts), upto, last, key.forced)


def whole_table(definition: TableDefinition, where: str = "") -> Chunk:
    """Return a table that has no usable key as its one chunk.

    Raises:
        SnapshotConditionError: the condition is none.
    """
    return Chunk(row_condition(definition, where) or "TRUE", (), last=True)


def rows_estimated(query: Query, definition: TableDefinition, where: str = "") -> int | None:
    """Return how many rows the server expects, without reading them; None when it does not say.

    Its statistics of a whole table are off by half at times; a condition without an index counts as no condition on
    MariaDB, and by rough shares on MySQL. An empty table, which they give one row, is looked at.

    Raises:
        SnapshotConditionError: the condition is none, or the server refuses it.
    """
    plan = _plan(query, definition, checked_condition(query, definition, where))
    if len(plan) != 1:
        return None
    _, rows, filtered = plan[0]
    if rows == 1 and not where and not query(f"SELECT 1 FROM {_place(definition)} LIMIT 1"):  # noqa: S608 - quoted
        return 0
    return None if rows is None else round(rows * filtered / 100)


def bytes_of_row(query: Query, definition: TableDefinition) -> int | None:
    """Return the mean length of a row in bytes as the server estimates it; None when it does not say."""
    found = query(
        "SELECT TABLE_SCHEMA, TABLE_NAME, AVG_ROW_LENGTH FROM information_schema.TABLES "  # noqa: S608 - hex
        f"WHERE TABLE_SCHEMA = {_literal(definition.database)} AND TABLE_NAME = {_literal(definition.table)}"
    )
    exact = [row[2] for row in found if (text(row[0]), text(row[1])) == definition.name]
    return int(exact[0]) if exact and exact[0] else None


def rows_of_chunk(avg_row_length: int | None, most_rows: int, most_bytes: int) -> int:
    """Return a first size for chunks of a table, in rows, from 1.

    Args:
        avg_row_length: mean bytes of a row; None or 0 where it is not known.
        most_rows: most rows of a chunk.
        most_bytes: about the most bytes of a chunk.
    """
    return max(1, min(most_rows, most_bytes // max(1, avg_row_length or 1)))


def _few(query: Query, definition: TableDefinition, condition: str, rows: int) -> bool:
    """Tell whether the server finds the rows of a condition by an index, and expects no more than a chunk has."""
    plan = _plan(query, definition, condition)
    return len(plan) == 1 and plan[0][0] in _BY_INDEX and (plan[0][1] or 0) <= rows


def _plan(query: Query, definition: TableDefinition, condition: str) -> list[tuple[str, int | None, float]]:
    """Return access type, rows and filtered percent of each table that a SELECT reads."""
    asked = f"SELECT * FROM {_place(definition)}{_where([condition] if condition else [])}"  # noqa: S608 - checked
    return [_step(row) for row in query(f"EXPLAIN FORMAT=TRADITIONAL {asked}")]


def _step(row: Sequence[Any]) -> tuple[str, int | None, float]:
    if len(row) > 10:  # MySQL: with partitions and filtered
        kind, rows, filtered = row[4], row[9], row[10]
    else:
        kind, rows, filtered = row[3], row[8], None
    if kind is None:
        return _NO_ROW, 0, 100.0
    return text(kind), None if rows is None else int(rows), 100.0 if filtered is None else float(filtered)


def _where(conditions: list[str]) -> str:
    return " WHERE " + " AND ".join(conditions) if conditions else ""


def _place(definition: TableDefinition) -> str:
    return f"{quoted(definition.database)}.{quoted(definition.table)}"


def _literal(name: str) -> str:
    return f"_utf8mb4 X'{name.encode().hex()}'"
