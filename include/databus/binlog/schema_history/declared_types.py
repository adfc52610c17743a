"""Read a declared type: from DDL, and from COLUMN_TYPE of information_schema, which is written alike."""

from __future__ import annotations

from dataclasses import dataclass

from databus.binlog.schema_history.attach import GEOMETRY
from databus.binlog.schema_history.definition import DeclaredType
from databus.binlog.schema_history.sql_tokens import TokenReader, UndecidedError, items, tokens_of

_PLAIN = {
    *("tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "bit", "year", "date"),
    *("datetime", "timestamp", "time", "char", "varchar", "binary", "varbinary", "enum", "set", "json", "vector"),
    *("tinyblob", "blob", "mediumblob", "longblob", "tinytext", "text", "mediumtext", "longtext"),
    *("uuid", "inet4", "inet6"),
    *GEOMETRY,
}
_ALIASES = {
    "integer": "int", "int1": "tinyint", "int2": "smallint", "int3": "mediumint", "int4": "int", "int8": "bigint",
    "middleint": "mediumint", "dec": "decimal", "numeric": "decimal", "fixed": "decimal", "real": "double",
    "float4": "float", "float8": "double", "bool": "tinyint", "boolean": "tinyint", "character": "char",
    "varcharacter": "varchar", "nchar": "char", "nvarchar": "varchar", "serial": "bigint",
    "geomcollection": "geometrycollection",
}  # fmt: skip
_NATIONAL = {"nchar", "nvarchar", "national"}
_INTEGERS = {"tinyint", "smallint", "mediumint", "int", "bigint", "year"}
_LARGEST = {"tiny": 255, "": 65_535, "medium": (1 << 24) - 1, "long": (1 << 32) - 1}


@dataclass(frozen=True)
class ReadType:
    """A type and what its words say beyond it.

    Attributes:
        type: the type; COMPRESSED is an attribute that follows.
        charset: character set that the type itself names (NATIONAL, MariaDB's JSON); "" otherwise.
        sized: length given with TEXT(n) or BLOB(n), which picks the type; 0 otherwise.
        serial: SERIAL: NOT NULL.
    """

    type: DeclaredType
    charset: str = ""
    sized: int = 0
    serial: bool = False


def read_type(reader: TokenReader, flavor: str) -> ReadType:
    """Take a type.

    Raises:
        UndecidedError: it is of no known kind.
    """
    token = reader.next()
    word = token.word.lower()
    charset = ""
    if word in _NATIONAL:
        charset = "utf8mb3"
        word = reader.next().word.lower() if word == "national" else word
    if word == "long":
        word = _long(reader)
    name = _ALIASES.get(word, word)
    if name not in _PLAIN:
        raise UndecidedError(f"the type {token.text!r}")
    if name == "double":
        reader.take("PRECISION")
    if name in ("char", "binary") and reader.take("VARYING"):
        name = "var" + name
    numbers, values = _arguments(reader)
    if bool(values) != (name in ("enum", "set")):
        raise UndecidedError(f"the arguments of the type {token.text!r}")
    if name == "json" and flavor == "mariadb":
        return ReadType(DeclaredType("longtext"), "utf8mb4")
    sized = numbers[0] if name in ("text", "blob") and numbers else 0
    unsigned = word == "serial"
    while (sign := reader.peek().word) in ("UNSIGNED", "SIGNED", "ZEROFILL"):
        reader.next()
        unsigned = unsigned or sign != "SIGNED"
    if name == "float" and len(numbers) == 1 and numbers[0] > 24:
        name = "double"
    if name in _INTEGERS or name in ("float", "double", "text", "blob") or name in GEOMETRY:
        numbers = ()
    return ReadType(DeclaredType(name, _spelled_out(name, numbers), unsigned, values), charset, sized, word == "serial")


def _spelled_out(name: str, numbers: tuple[int, ...]) -> tuple[int, ...]:
    """Return a type's numbers with those that the server adds."""
    if name == "decimal":
        return (*numbers, *(10, 0)[len(numbers) :]) if numbers[:1] != (0,) else (10, *numbers[1:], 0)[:2]
    if name in ("bit", "char", "binary"):
        return numbers or (1,)
    return () if name in ("datetime", "timestamp", "time") and numbers == (0,) else numbers


def sized_type(kind: DeclaredType, length: int) -> DeclaredType:
    """Return the smallest blob or text type that holds `length` bytes, as TEXT(n) and BLOB(n) choose it."""
    if not length:
        return kind
    size = next(size for size, largest in _LARGEST.items() if length <= largest)
    return DeclaredType(size + kind.name)


def type_of_text(text: str, flavor: str) -> DeclaredType:
    """Read COLUMN_TYPE of information_schema.

    Raises:
        UndecidedError: it is of no known kind.
    """
    compressed = "COMPRESSED" in text.upper().partition("/*")[2]
    reader = TokenReader(tokens_of(text.partition(" /*")[0], flavor))
    kind = read_type(reader, "").type
    return DeclaredType(kind.name, kind.numbers, kind.unsigned, kind.values, compressed)


def _long(reader: TokenReader) -> str:
    if reader.take("VARBINARY"):
        return "mediumblob"
    for words in (("CHARACTER", "VARYING"), ("CHAR", "VARYING"), ("VARCHAR",), ("VARCHARACTER",)):
        if reader.take(*words):
            break
    return "mediumtext"


def _arguments(reader: TokenReader) -> tuple[tuple[int, ...], tuple[str, ...]]:
    if reader.peek().text != "(":
        return (), ()
    numbers: list[int] = []
    values: list[str] = []
    for item in items(reader.group()):
        if len(item) != 1:
            raise UndecidedError("the arguments of a type")
        if item[0].number is not None:
            numbers.append(item[0].number)
        elif item[0].string is not None:
            values.append(item[0].string.rstrip(" "))
        else:
            raise UndecidedError(f"the argument {item[0].text!r} of a type")
    return tuple(numbers), tuple(values)
