"""Read a column of CREATE TABLE or ALTER TABLE, and the character set options around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from databus.binlog.schema_history.attach import TEXT_TYPES
from databus.binlog.schema_history.declared_types import ReadType, read_type, sized_type
from databus.binlog.schema_history.definition import ColumnDefinition
from databus.binlog.schema_history.sql_tokens import SqlToken, TokenReader, UndecidedError
from databus.binlog.values.charsets import charset_named

_ONE_WORD = {
    *("AUTO_INCREMENT", "UNIQUE", "BINARY", "VISIBLE", "SIGNED", "ENFORCED", "VIRTUAL", "STORED", "PERSISTENT"),
    *("ALWAYS", "NOT"),
}
_ONE_VALUE = {
    *("COMMENT", "COLUMN_FORMAT", "STORAGE", "SRID", "ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"),
    *("REF_SYSTEM_ID",),
}


@dataclass(frozen=True)
class ReadColumn:
    """A column as DDL declares it.

    Attributes:
        column: the column.
        primary: PRIMARY KEY stands with it.
        after: "" for FIRST, a column's name for AFTER; None where no place is given.
    """

    column: ColumnDefinition
    primary: bool = False
    after: str | None = None


@dataclass
class _Attributes:
    charset: str = ""
    nullable: bool | None = None
    primary: bool = False
    visible: bool = True
    unsigned: bool = False
    compressed: bool = False
    generated: str = ""
    after: str | None = None


def read_column(tokens: Sequence[SqlToken], table_charset: str, flavor: str) -> ReadColumn:
    """Read `name type attributes [FIRST | AFTER name]`.

    Raises:
        UndecidedError: something in it is not understood.
    """
    reader = TokenReader(list(tokens))
    name = reader.identifier()
    read = read_type(reader, flavor)
    found = _Attributes()
    while not reader.done:
        _attribute(reader, found)
    return ReadColumn(_column(name, read, found, table_charset), found.primary, found.after)


def _column(name: str, read: ReadType, found: _Attributes, table_charset: str) -> ColumnDefinition:
    kind = replace(
        read.type, unsigned=read.type.unsigned or found.unsigned, compressed=read.type.compressed or found.compressed
    )
    charset = ""
    if kind.name in TEXT_TYPES:
        charset = found.charset or read.charset or table_charset
        if charset == "binary":
            raise UndecidedError(f"column {name} of the character set binary")
    if read.sized:
        if kind.name == "text" and not charset:
            raise UndecidedError(f"the size of column {name}, whose character set is not known")
        kind = sized_type(kind, read.sized * (charset_named(charset).max_bytes if charset else 1))
    nullable = found.nullable
    if found.primary or read.serial or found.generated.startswith("row"):
        nullable = False
    elif nullable is None and kind.name != "timestamp":  # that depends on explicit_defaults_for_timestamp
        nullable = True
    return ColumnDefinition(name, kind, charset, nullable, found.visible, found.generated)


def _attribute(reader: TokenReader, found: _Attributes) -> None:  # noqa: PLR0912 - one line per attribute
    charset = charset_option(reader)
    if charset is not None:
        found.charset = charset or found.charset
        return
    token = reader.next()
    word = token.word
    if word == "NOT" and reader.take("NULL"):
        found.nullable = False
    elif word == "NULL":
        found.nullable = True
    elif word in ("PRIMARY", "KEY"):
        reader.take("KEY")
        found.primary = True
    elif word == "UNIQUE":
        reader.take("KEY")
    elif word in ("UNSIGNED", "ZEROFILL"):
        found.unsigned = True
    elif word == "INVISIBLE":
        found.visible = False
    elif word == "COMPRESSED":
        found.compressed = True
        if reader.take_sign("="):
            reader.next()
    elif word in ("GENERATED", "AS"):
        found.generated = _generated(reader, word)
    elif word == "DEFAULT" or (word == "ON" and reader.take("UPDATE")):
        _value(reader)
    elif word == "FIRST":
        found.after = ""
    elif word == "AFTER":
        found.after = reader.identifier()
    elif word in ("WITH", "WITHOUT") and reader.take("SYSTEM", "VERSIONING"):
        if word == "WITH":
            raise UndecidedError("WITH SYSTEM VERSIONING of one column")
    elif word == "CHECK":
        reader.group()
    elif word == "CONSTRAINT":
        if reader.peek().word != "CHECK":
            reader.next()
    elif word == "REFERENCES":
        _references(reader)
    elif word == "SERIAL" and reader.take("DEFAULT", "VALUE"):
        found.nullable = False
    elif word in _ONE_VALUE:
        reader.take_sign("=")
        reader.next()
    elif word not in _ONE_WORD:
        raise UndecidedError(f"{token.text!r} in the definition of a column")


def charset_option(reader: TokenReader) -> str | None:
    """Take a CHARACTER SET or COLLATE option; None when none comes, "" for a collation of any character set."""
    start = reader.at
    reader.take("DEFAULT")
    for words in (("CHARACTER", "SET"), ("CHARSET",), ("CHAR", "SET"), ("COLLATE",)):
        if reader.take(*words):
            reader.take_sign("=")
            token = reader.next()
            text = (token.name or token.string or "").lower()
            return _known_charset(text.partition("_")[0] if words == ("COLLATE",) else text, words[0])
    if reader.take("ASCII"):
        return "latin1"
    if reader.take("UNICODE"):
        return "ucs2"
    reader.at = start
    return None


def _known_charset(name: str, word: str) -> str:
    name = "utf8mb3" if name == "utf8" else name
    try:
        return charset_named(name).name
    except KeyError:
        if word == "COLLATE":
            return ""  # MariaDB's uca1400 collations are of any character set
        raise UndecidedError(f"the character set {name!r}") from None


def _generated(reader: TokenReader, word: str) -> str:
    if word == "GENERATED":
        reader.take("ALWAYS")
        if not reader.take("AS"):
            raise UndecidedError("GENERATED without AS")
    if reader.take("ROW", "START"):
        return "row start"
    if reader.take("ROW", "END"):
        return "row end"
    reader.group()
    return "stored" if reader.take("STORED") or reader.take("PERSISTENT") else "virtual"


def _value(reader: TokenReader) -> None:
    """Take a default: a literal, a function, an expression in parentheses."""
    if reader.peek().text == "(":
        reader.group()
        return
    if reader.take("NEXT", "VALUE", "FOR"):
        reader.qualified("")
        return
    if reader.peek().text in ("-", "+"):
        reader.next()
    token = reader.next()
    if token.word and reader.peek().string is not None and token.word not in ("NULL", "TRUE", "FALSE"):
        reader.next()  # b'01', _utf8'x'
    while reader.peek().text == ".":
        reader.next()
        reader.next()
    if reader.peek().text == "(" and token.name:
        reader.group()


def _references(reader: TokenReader) -> None:
    reader.qualified("")
    if reader.peek().text == "(":
        reader.group()
    while reader.peek().word in ("MATCH", "ON"):
        if reader.next().word == "ON":
            reader.next()
        if reader.next().word in ("SET", "NO"):
            reader.next()
