"""Columns that an ALTER TABLE of the log gives another name, or drops: RENAME COLUMN, CHANGE, DROP."""

from __future__ import annotations

from collections.abc import Iterator

from databus.binlog.schema_history.actions import AlterTable
from databus.binlog.schema_history.sql_tokens import TokenReader, UndecidedError


def columns_renamed(action: AlterTable) -> tuple[tuple[str, str], ...]:
    """Return the names before and after of the columns that the statement renames, as it writes them.

    All of them are names from before the statement: it does them at once, so that two can be exchanged. Case alone
    makes no other name.
    """
    return tuple(pair for pair in _renamed(action) if pair[0].casefold() != pair[1].casefold())


def columns_moved(action: AlterTable) -> tuple[tuple[str, str], ...]:
    """Return the columns that the statement renames, and with "" behind those that it drops; see `columns_renamed`."""
    return (*columns_renamed(action), *((name, "") for name in _dropped(action)))


def _dropped(action: AlterTable) -> Iterator[str]:
    for change in action.changes:
        reader = TokenReader(list(change))
        try:
            if not reader.take("DROP"):
                continue
            if not reader.take("COLUMN") and _drops_no_column(reader):
                continue
            reader.take("IF", "EXISTS")
            yield _column(reader)
        except UndecidedError:
            continue  # no server has run it


def _drops_no_column(reader: TokenReader) -> bool:
    word, further = reader.peek().word, reader.peek(1).word
    if word in ("INDEX", "KEY", "CONSTRAINT", "CHECK", "PARTITION"):
        return True
    return (word, further) in {("PRIMARY", "KEY"), ("FOREIGN", "KEY"), ("SYSTEM", "VERSIONING"), ("PERIOD", "FOR")}


def _renamed(action: AlterTable) -> Iterator[tuple[str, str]]:
    for change in action.changes:
        reader = TokenReader(list(change))
        try:
            if reader.take("RENAME", "COLUMN"):
                reader.take("IF", "EXISTS")
                old = _column(reader)
                if reader.take("TO"):
                    yield old, _column(reader)
            elif reader.take("CHANGE"):
                reader.take("COLUMN")
                reader.take("IF", "EXISTS")
                yield _column(reader), _column(reader)
        except UndecidedError:
            continue  # no server has run it


def _column(reader: TokenReader) -> str:
    """Take a column, which may be named with its table."""
    reader.take_sign(".")
    name = reader.identifier()
    while reader.take_sign("."):
        name = reader.identifier()
    return name
