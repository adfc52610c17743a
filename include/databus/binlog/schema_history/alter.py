"""ALTER TABLE: the definition that follows from another one, in the order in which the server puts columns.

Servers build the new list in two steps (`mysql_prepare_alter_table`, sql_table.cc): first the old columns without the
dropped ones, changed ones in their place; then, as they are written, added ones are put in and those with FIRST or
AFTER are taken out and put where they belong.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from databus.binlog.schema_history.attach import BLOB_BYTES, TEXT_TYPES
from databus.binlog.schema_history.declared_columns import ReadColumn, charset_option, read_column
from databus.binlog.schema_history.definition import ColumnDefinition, TableDefinition
from databus.binlog.schema_history.sql_tokens import SqlToken, TokenReader, UndecidedError, items
from databus.binlog.values.charsets import charset_named

_KEY_WORDS = {"INDEX", "KEY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CHECK", "CONSTRAINT", "PARTITION"}
_NO_EFFECT = {
    *("ALGORITHM", "LOCK", "FORCE", "WAIT", "NOWAIT", "ENABLE", "DISABLE", "DISCARD", "IMPORT", "ORDER", "ENGINE"),
    *("AUTO_INCREMENT", "COMMENT", "ROW_FORMAT", "KEY_BLOCK_SIZE", "MAX_ROWS", "MIN_ROWS", "AVG_ROW_LENGTH"),
    *("CHECKSUM", "PACK_KEYS", "STATS_PERSISTENT", "STATS_AUTO_RECALC", "STATS_SAMPLE_PAGES", "DELAY_KEY_WRITE"),
    *("COMPRESSION", "ENCRYPTION", "ENCRYPTED", "ENCRYPTION_KEY_ID", "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL"),
    *("PAGE_CHECKSUM", "TRANSACTIONAL", "INSERT_METHOD", "UNION", "DATA", "CONNECTION", "TABLESPACE", "PARTITION"),
    *("REMOVE", "REORGANIZE", "COALESCE", "EXCHANGE", "TRUNCATE", "REBUILD", "OPTIMIZE", "REPAIR", "ANALYZE"),
    *("SECONDARY_ENGINE", "SECONDARY_LOAD", "SECONDARY_UNLOAD", "AUTOEXTEND_SIZE", "ITEF_QUOTES"),
}
"""First words of changes that leave columns and keys as they are."""


@dataclass
class _AlteredTable:
    """Changes that one ALTER TABLE asks for, before any of it is done."""

    dropped: set[str] = field(default_factory=set)
    replaced: dict[str, ReadColumn] = field(default_factory=dict)
    renamed: dict[str, str] = field(default_factory=dict)
    shown: dict[str, bool] = field(default_factory=dict)
    placed: list[ReadColumn] = field(default_factory=list)
    key: list[str] | None = None
    key_dropped: bool = False
    versioned: bool | None = None
    charset: str = ""
    converted: str = ""


def alter(table: TableDefinition, changes: Sequence[Sequence[SqlToken]], flavor: str) -> TableDefinition:
    """Return the definition after ALTER TABLE; its name stays.

    Raises:
        UndecidedError: a part of the statement is not understood, or does not fit the definition.
    """
    change = _AlteredTable()
    for tokens in changes:
        if tokens:
            _Reader(table, TokenReader(list(tokens)), change, flavor).read()
    added = (*change.placed, *change.replaced.values())
    if (change.charset or change.converted) and any(r.column.type.name in TEXT_TYPES for r in added):
        raise UndecidedError("text columns and the table's character set change in one statement")
    return _applied(table, change)


@dataclass
class _Reader:
    """Reads one part of an ALTER TABLE."""

    table: TableDefinition
    reader: TokenReader
    change: _AlteredTable
    flavor: str

    def read(self) -> None:
        """Take note of what the part asks for."""
        reader, change = self.reader, self.change
        if (charset := charset_option(reader)) is not None:
            change.charset = charset or change.charset
            while not reader.done and (more := charset_option(reader)) is not None:
                change.charset = more or change.charset
            self._options()
            return
        verbs = {
            "ADD": self._add, "DROP": self._drop, "MODIFY": self._modify, "CHANGE": self._change, "ALTER": self._alter,
            "RENAME": self._rename, "CONVERT": self._convert,
        }  # fmt: skip
        word = reader.next().word
        if word in verbs:
            verbs[word]()
        elif word not in _NO_EFFECT:
            raise UndecidedError(f"ALTER TABLE … {reader.tokens[0].text}")
        else:
            self._options()

    def _options(self) -> None:
        """Table options may follow one another without commas."""
        words = [t.word for t in self.reader.tokens[self.reader.at :]]
        if {"CHARSET", "CHARACTER", "COLLATE"} & set(words):
            raise UndecidedError("a character set among other table options")

    def _add(self) -> None:
        reader = self.reader
        explicit = reader.take("COLUMN")
        if not explicit and (reader.take("SYSTEM", "VERSIONING")):
            self.change.versioned = True
            return
        if not explicit and reader.peek().word == "PERIOD" and reader.peek(1).word == "FOR":
            return
        if not explicit and self._key():
            return
        missing = reader.take("IF", "NOT", "EXISTS")
        parts = items(reader.group()) if reader.peek().text == "(" else [reader.tokens[reader.at :]]
        for part in parts:
            if part and part[0].word in _KEY_WORDS | {"PRIMARY"}:
                _Reader(self.table, TokenReader([SqlToken("ADD", "ADD"), *part]), self.change, self.flavor).read()
                continue
            column = self._column(part)
            if missing and _found(self.table, column.column.name):
                continue
            self.change.placed.append(column)

    def _key(self) -> bool:
        """Take the definition of a key or constraint; True when it was one."""
        reader = self.reader
        if reader.take("CONSTRAINT") and reader.peek().word not in ("PRIMARY", "UNIQUE", "FOREIGN", "CHECK"):
            reader.next()
        if reader.take("PRIMARY", "KEY"):
            self.change.key = key_columns(reader)
            return True
        named = reader.at > 0 and reader.tokens[reader.at - 1].word == "CONSTRAINT"
        return named or reader.peek().word in _KEY_WORDS

    def _drop(self) -> None:
        reader, change = self.reader, self.change
        if reader.take("PRIMARY", "KEY"):
            change.key_dropped = True
        elif reader.take("SYSTEM", "VERSIONING"):
            change.versioned = False
        elif reader.take("PERIOD", "FOR") or reader.take("FOREIGN", "KEY"):
            pass
        elif reader.peek().word in ("INDEX", "KEY", "CONSTRAINT", "CHECK", "PARTITION"):
            partition = reader.next().word == "PARTITION"
            reader.take("IF", "EXISTS")
            change.key_dropped |= not partition and reader.peek().name.upper() == "PRIMARY"
        else:
            reader.take("COLUMN")
            maybe = reader.take("IF", "EXISTS")
            name = reader.identifier()
            if _found(self.table, name) is None:
                if maybe:
                    return
                raise UndecidedError(f"DROP of column {name}, which is not there")
            change.dropped.add(name.casefold())

    def _modify(self) -> None:
        self.reader.take("COLUMN")
        maybe = self.reader.take("IF", "EXISTS")
        column = self._column(self.reader.tokens[self.reader.at :])
        self._replace(column.column.name, column, maybe=maybe)

    def _change(self) -> None:
        self.reader.take("COLUMN")
        maybe = self.reader.take("IF", "EXISTS")
        old = self.reader.identifier()
        self._replace(old, self._column(self.reader.tokens[self.reader.at :]), maybe=maybe)

    def _replace(self, old: str, column: ReadColumn, *, maybe: bool) -> None:
        if _found(self.table, old) is None:
            if maybe:
                return
            raise UndecidedError(f"a change of column {old}, which is not there")
        self.change.replaced[old.casefold()] = column
        if column.after is not None:
            self.change.placed.append(column)

    def _alter(self) -> None:
        reader = self.reader
        if reader.peek().word in ("INDEX", "KEY", "CHECK", "CONSTRAINT"):
            return
        reader.take("COLUMN")
        reader.take("IF", "EXISTS")
        name = reader.identifier()
        if reader.take("SET", "INVISIBLE") or reader.take("SET", "VISIBLE"):
            self.change.shown[name.casefold()] = reader.tokens[reader.at - 1].word == "VISIBLE"
        elif reader.peek().word not in ("SET", "DROP"):
            raise UndecidedError(f"ALTER COLUMN {name} {reader.peek().text}")

    def _rename(self) -> None:
        reader = self.reader
        if not reader.take("COLUMN"):
            return  # of the table, which the caller sees to, or of an index
        maybe = reader.take("IF", "EXISTS")
        old = reader.identifier()
        if not reader.take("TO"):
            raise UndecidedError("RENAME COLUMN without TO")
        if _found(self.table, old) is None:
            if maybe:
                return
            raise UndecidedError(f"RENAME of column {old}, which is not there")
        self.change.renamed[old.casefold()] = reader.identifier()

    def _convert(self) -> None:
        if not self.reader.take("TO"):
            raise UndecidedError("ALTER TABLE … CONVERT")
        charset = charset_option(self.reader)
        further = "" if self.reader.done else charset_option(self.reader)
        if not charset or further is None or charset == "binary":
            raise UndecidedError("CONVERT TO CHARACTER SET")
        self.change.converted = charset

    def _column(self, tokens: Sequence[SqlToken]) -> ReadColumn:
        column = read_column(tokens, self.table.charset, self.flavor)
        if column.primary:
            self.change.key = [column.column.name]
        return column


def _applied(table: TableDefinition, change: _AlteredTable) -> TableDefinition:
    columns: list[ColumnDefinition] = []
    new_names: dict[str, str] = {}
    for column in table.columns:
        old = column.name.casefold()
        if old in change.dropped:
            continue
        read = change.replaced.get(old)
        if read is not None:
            new_names[old] = read.column.name
            columns.append(read.column)
            continue
        name = change.renamed.get(old, column.name)
        new_names[old] = name
        columns.append(replace(column, name=name, visible=change.shown.get(old, column.visible)))
    if change.converted:
        columns = [_converted(c, change.converted) for c in columns]
    for read in change.placed:
        _place(columns, read)
    key = [new_names[k.casefold()] for k in table.primary_key if k.casefold() in new_names]
    if change.key_dropped:
        key = []
    if change.key is not None:
        key = change.key
    return finished(
        replace(
            table,
            charset=change.converted or change.charset or table.charset,
            versioned=table.versioned if change.versioned is None else change.versioned,
        ),
        columns,
        key,
    )


def finished(table: TableDefinition, columns: Sequence[ColumnDefinition], key: Sequence[str]) -> TableDefinition:
    """Return a table with these columns and key: names as the columns have them, key columns NOT NULL.

    Raises:
        UndecidedError: a name occurs twice, or the key names no column.
    """
    names = {c.name.casefold(): c.name for c in columns}
    if len(names) != len(columns) or any(k.casefold() not in names for k in key):
        raise UndecidedError("columns or key that do not fit together")
    end = {c.name for c in columns if c.generated == "row end"}
    keys = [names[k.casefold()] for k in key]
    columns = [replace(c, nullable=False) if c.name in keys else c for c in columns]
    return replace(table, columns=tuple(columns), primary_key=tuple(k for k in keys if k not in end))


def key_columns(reader: TokenReader) -> list[str]:
    """Take what follows PRIMARY KEY up to its columns; returns their names."""
    while not reader.done and reader.peek().text != "(":
        reader.next()
    return [TokenReader(part).identifier() for part in items(reader.group())]


def _place(columns: list[ColumnDefinition], read: ReadColumn) -> None:
    """Put a column where it is asked to be; one that is moved leaves its old place only now."""
    columns[:] = [c for c in columns if c is not read.column]
    if read.after is None:
        columns.append(read.column)
    elif read.after == "":
        columns.insert(0, read.column)
    else:
        after = [i for i, c in enumerate(columns) if c.name.casefold() == read.after.casefold()]
        if not after:
            raise UndecidedError(f"AFTER {read.after}, which is not there")
        columns.insert(after[0] + 1, read.column)


def _converted(column: ColumnDefinition, charset: str) -> ColumnDefinition:
    if column.type.name not in TEXT_TYPES:
        return column
    if column.type.name in BLOB_BYTES:
        before = charset_named(column.charset).max_bytes if column.charset else 0
        if charset_named(charset).max_bytes > before:
            raise UndecidedError(f"CONVERT TO CHARACTER SET may enlarge column {column.name}")
    return replace(column, charset=charset)


def _found(table: TableDefinition, name: str) -> ColumnDefinition | None:
    return next((c for c in table.columns if c.name.casefold() == name.casefold()), None)
